"""HORA with a prior of each prompt: given, and learned on the way from what the rule has seen."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.allocation.loops import play, updates
from tests.theory.allocation.policies.test_hora import greedy, marginal
from theory.allocation import learned_priors
from theory.allocation.policies import hora
from theory.allocation.priors import BetaMixture, beta, mixture
from theory.errors import InvalidInput
from theory.protocols import Allocator

B, N, PROBE = 5, 8, 4
RATES = np.linspace(0, 1, 15)
DISCOUNT = 0.75

Prompt = tuple[int, int, int, int]
PROMPTS = st.lists(
    st.tuples(*[st.integers(1, 9)] * 2, *[st.integers(0, 3)] * 2), min_size=4, max_size=4
)
PLAIN = jax.jit(hora.allocate)


@settings(max_examples=20)
@given(PROMPTS, st.integers(0, 6), st.sampled_from([3, 5, 10**6]))
def test_greedy_is_exhaustive_search(prompts: list[Prompt], budget: int, cap: int) -> None:
    """Each with a Beta(a / 2, b / 2) of its own: no other way to spend the budget has more hits, and ties go in order."""
    laws = [
        (Fraction(a, 2) + s, Fraction(b, 2) + f, min(max(cap - s - f, 0), budget))
        for a, b, s, f in prompts
    ]
    rows = [[marginal(a, b, column) for column in range(most)] for a, b, most in laws]
    spent = min(budget, sum(map(len, rows)))
    best = max(
        sum(sum(row[:m], Fraction(0)) for row, m in zip(rows, split, strict=True))
        for split in itertools.product(*(range(len(row) + 1) for row in rows))
        if sum(split) == spent
    )
    with jax.enable_x64(True):
        a, b, s, f = jnp.asarray(prompts).T
        rates = a / (a + b)
        prior = learned_priors.of_rates(rates, 1.0)._replace(a=a[:, None] / 2, b=b[:, None] / 2)
        found = PLAIN(prior, s, f, jnp.asarray(budget), jnp.asarray(cap))
        many = hora.allocate_each(prior, s, f, budget, cap)
    chosen = found.additional.tolist()
    assert sum(sum(row[:m], Fraction(0)) for row, m in zip(rows, chosen, strict=True)) == best
    assert chosen == many.additional.tolist() == greedy(rows, budget)
    assert found.decision.tolist() == many.decision.tolist()
    np.testing.assert_allclose(many.score, [float(a / (a + b)) for a, b, _ in laws])
    np.testing.assert_allclose(found.score, many.score)


def equal_priors(law: BetaMixture) -> tuple[Allocator, Allocator]:
    """One prior for all prompts, and the same for each."""
    learned = hora.learned_prior_allocator(
        B, N, lambda s, f: learned_priors.global_prior(law, s.size), cap=12
    )
    return hora.allocator(B, N, cap=12, prior=law), learned


def test_equal_priors_are_one_prior() -> None:
    """At any probes of any batch both ask for the same, to the rollout."""
    rng = np.random.default_rng(5)
    one, other = equal_priors(mixture(((0.7, 0.5, 2.0),), ((0.3, 0.0),)))
    proposals = [jax.jit(each.propose) for each in (one, other)]
    for seed in range(6):
        states = [each.init(jax.random.key(seed), RATES.size) for each in (one, other)]
        np.testing.assert_array_equal(states[0].open, states[1].open)
        right = jnp.asarray(rng.integers(0, PROBE + 1, RATES.size), jnp.int32)
        states = [each._replace(successes=right, failures=PROBE - right) for each in states]
        found = [propose(state, 1000) for propose, state in zip(proposals, states, strict=True)]
        assert found[0].additional.sum() == B * (N - PROBE)
        for first, second in zip(*found, strict=True):
            np.testing.assert_array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize(
    "law", [beta(1.0, 1.0), mixture(((0.4, 0.5, 2.0), (0.3, 3.0, 3.0)), ((0.3, 0.0),))]
)
def test_equal_priors_play_the_same_rounds(law: BetaMixture) -> None:
    """Whole updates, under a budget that cuts rounds in two."""
    rounds = [play(each, RATES, 20, budget=17) for each in equal_priors(law)]
    for one, other in zip(*rounds, strict=True):
        for first, second in zip(one.requests, other.requests, strict=True):
            np.testing.assert_array_equal(first, second)
        for first, second in zip(one.groups, other.groups, strict=True):
            np.testing.assert_array_equal(first, second)


def test_priors_are_learned_from_what_was_drawn() -> None:
    """Every group of four epochs again in fractions: Beta(1 + lam S, 1 + lam F), lam = 3/4, where S is multiplied by lam before a visit is added."""

    def last_visit(s: jax.Array, f: jax.Array) -> BetaMixture:
        return learned_priors.last_visit_prior(s, f, DISCOUNT)

    allocator = hora.learned_prior_allocator(B, N, last_visit, DISCOUNT)
    remembered = [[Fraction(0), Fraction(0)] for _ in RATES]
    complete = updates(play(allocator, RATES, 24))
    assert len(complete) == 12
    flat = 0
    for probes, rest in complete:
        ready = np.flatnonzero(rest.groups.ready)
        assert (probes.requests.additional[ready] == PROBE).all()
        rows: list[list[Fraction]] = []
        unlearned: list[list[Fraction]] = []
        for prompt in ready:
            s, f = (int(part[prompt]) for part in probes.results)
            a, b = (1 + each * 3 / 4 for each in remembered[prompt])
            rows.append([marginal(a + s, b + f, column) for column in range(B * N)])
            unlearned.append([marginal(Fraction(1 + s), Fraction(1 + f), c) for c in range(B * N)])
        shares = rest.requests.additional[ready].tolist()
        assert shares == greedy(rows, B * (N - PROBE))
        flat += shares == greedy(unlearned, B * (N - PROBE))
        for prompt in ready:
            for side, part in enumerate((rest.groups.successes, rest.groups.failures)):
                remembered[prompt][side] = remembered[prompt][side] * 3 / 4 + int(part[prompt])
    assert 3 <= flat < 9  # nothing is known in the first epoch


def test_a_population_is_its_prompts() -> None:
    """Prompts with the same past count as one pair; where nothing was seen the law is flat."""
    with jax.enable_x64(True):
        s, f = jnp.array([0.0, 3.0, 0.0, 1.5, 3.0]), jnp.array([4.0, 1.0, 4.0, 2.0, 1.0])
        pool = learned_priors.population_prior(s, f)
        pairs = learned_priors.fitted_beta(s[1:4], f[1:4], jnp.array([2.0, 2.0, 1.0]))
        np.testing.assert_allclose(pool.a, jnp.full((5, 1), pairs.a[0]), rtol=1e-12)
        np.testing.assert_allclose(pool.b, jnp.full((5, 1), pairs.b[0]), rtol=1e-12)
        unseen = learned_priors.population_prior(0 * s, 0 * f)
    assert unseen.a.tolist() == unseen.b.tolist() == [[1.0]] * 5


@pytest.mark.slow
def test_nothing_seen_is_nothing_learned_in_single_precision() -> None:
    """Compiled as in use, where psi(a + 0) and psi(a) may be rounded differently."""
    unseen = learned_priors.population_prior(jnp.zeros(6), jnp.zeros(6))
    assert unseen.a.tolist() == unseen.b.tolist() == [[1.0]] * 6


def test_what_cannot_be_learned_from_is_refused() -> None:
    one = hora.learned_prior_allocator(B, N, lambda s, f: beta(1.0, 1.0))
    with pytest.raises(InvalidInput, match="give each of the 15 prompts one"):
        one.init(jax.random.key(0), 15)
    with pytest.raises(InvalidInput, match=r"discount 1\.5"):
        hora.learned_prior_allocator(B, N, learned_priors.population_prior, 1.5)
    with pytest.raises(InvalidInput, match="cap 7"):
        hora.learned_prior_allocator(B, N, learned_priors.population_prior, cap=7)
    with pytest.raises(InvalidInput, match="probe 9"):
        hora.learned_prior_allocator(B, N, learned_priors.population_prior, probe=9)

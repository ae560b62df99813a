"""Optimal stopping: give a prompt up exactly where its next rollouts earn less than those of a fresh one.

The Bayes-optimal rule of a fresh stream (`theory.exact.allocation.fresh_stream`) with the population it needs learnt on the way. The stopping rule of
SARA asks how likely a group is to become effective; this one asks what that is worth against starting over, and on populations with
many hopeless and mastered prompts it gives up after three equal outcomes where SARA waits for 4, 9 or 18 (n = 8, 16, 32). On a
population without such prompts it becomes dynamic sampling.

The rule is ours: the stopping problem is Dinkelbach's (1967, Management Science 13), the online prior empirical Bayes. Because a rule
that looks at the rollouts alone leaves likelihoods as they are, abandoned groups are data like complete ones.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from theory.allocation.assembly import assemble, top_up
from theory.allocation.beta_binomial import probability_effective
from theory.allocation.equal_runs import best_rates, equal_runs, prospects
from theory.allocation.population import (
    PopulationFit,
    fitted,
    flat_grid,
    learn_visits,
    start_fit,
)
from theory.allocation.priors import BetaMixture
from theory.allocation.records import (
    Decision,
    Reason,
    Requests,
    check_share,
    check_whole,
    rank_by,
    served,
)
from theory.allocation.sequential import ActionTable, make_table, table_rule
from theory.allocation.sources import Belief, Source, epochs
from theory.allocation.stopping_program import (
    best_rate,
    effective_worth,
    rate_of_rule,
    stopping_problem,
    stopping_rule,
)
from theory.protocols import Allocator

DISCOUNT = 0.95
"""Weight of the visits of earlier updates, by update: a memory of about twenty of them."""

WARM_UP = 200
"""Visits before which nothing is given up: so many say where the mass of the population lies (rl-prototype.md 2)."""


class StoppingBelief(NamedTuple):
    """What the rule has learnt.

    Attributes:
        inner: of the source of prompts.
        fit: of the population.
        rate: price of a rollout: what the last rule earns per rollout under the fit.
        table: the rule of this update.
    """

    inner: Belief
    fit: PopulationFit
    rate: Float[Array, ""]
    table: ActionTable


def table(draws: Bool[Array, "M M"]) -> ActionTable:
    """A stopping rule as actions: one rollout where it draws, the rest at once where it would draw to the end whatever comes.

    Args:
        draws: [n+1, n+1].

    Returns:
        The table.
    """
    last = draws.shape[0] - 1
    to_the_end = draws
    # What is drawn to the end from both next states is drawn to the end; complete groups lie outside `draws` and count as such.
    side = jnp.arange(last + 1)
    full = side[:, None] + side[None, :] >= last
    for _ in range(last):
        ends = jnp.pad(to_the_end | full, ((0, 1), (0, 1)), constant_values=True)
        to_the_end = draws & ends[1:, :-1] & ends[:-1, 1:]
    return make_table(to_the_end, ~draws, 1)


def allocate(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: int,
) -> Requests:
    """One step for every prompt: commit, abandon, or one more rollout.

        mixed                                                             COMMIT, n - s - f more
        a run of equal outcomes at which Q_k <= 0 at the best rate        ABANDON; so is a finished group that is not mixed
        else                                                              CONTINUE, 1 more

    Args:
        prior: of the success rates of the stream that the prompts come from.
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: most rollouts in all; by score, and short of budget the decision stands and what is left is drawn.
        group_size: n, at least 2.

    Returns:
        What to draw; the score is the chance of an effective group for each rollout still missing, 0 where none is.
    """
    nothing = jnp.zeros(1, prior.a.dtype)
    runs = equal_runs(prior, nothing, nothing, group_size)
    wrong, right = prospects(runs, best_rates(runs)).patience[:, 0].astype(successes.dtype)
    missing = jnp.maximum(group_size - successes - failures, 0)
    commits = (successes > 0) & (failures > 0)
    continues = ~commits & (missing > 0) & (successes < right) & (failures < wrong)
    decision = jnp.where(continues, int(Decision.CONTINUE), int(Decision.ABANDON))
    decision = jnp.where(commits, int(Decision.COMMIT), decision)
    more = jnp.where(commits, missing, continues.astype(missing.dtype))
    chance = probability_effective(prior, successes, failures, group_size)
    score = jnp.where(missing > 0, chance / jnp.maximum(missing, 1).astype(chance.dtype), 0)
    reason = jnp.where(commits, int(Reason.COMMIT), int(Reason.PILOT))
    return Requests(served(more, budget, rank_by(score)), decision, reason, score)


def allocator(
    batch_size: int,
    group_size: int,
    worth: Float[Array, "M M"] | None = None,
    prior: BetaMixture | None = None,
    discount: float = DISCOUNT,
    warm_up: int = WARM_UP,
    source: Source | None = None,
) -> Allocator:
    """Optimal stopping in a training loop, the population learnt on the way.

    Args:
        batch_size: B, groups an update.
        group_size: n.
        worth: [n+1, n+1] of a complete group; `effective_worth` by default, `push_worth` gives up lopsided groups too.
        prior: grid of Beta laws and atoms whose weights are learnt, starting from its own; `flat_grid` by default.
        discount: weight of earlier visits, by update.
        warm_up: visits before which nothing is given up.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: a group below 2, a batch below 1, a discount outside [0, 1], a negative warm-up.
    """
    check_whole("group size", group_size, 2)
    check_share("discount", discount)
    check_whole("warm-up", warm_up, 0)
    learning = _learning(
        epochs() if source is None else source,
        effective_worth(group_size) if worth is None else worth,
        flat_grid() if prior is None else prior,
        discount,
        warm_up,
    )
    return assemble(learning, _by_belief, top_up(batch_size), batch_size)


def _by_belief(
    belief: StoppingBelief,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    opened: Bool[Array, " P"],
) -> Requests:
    return table_rule(belief.table)(belief, successes, failures, opened)


def _learning(
    source: Source,
    worth: Float[Array, "M M"],
    grid: BetaMixture,
    discount: float,
    warm_up: int,
) -> Source:
    """The source with a belief about the population beside its own."""
    everything = jnp.ones(worth.shape, bool)

    def init(key: Key[Array, ""], num_prompts: int) -> StoppingBelief:
        fit = start_fit(grid, worth.shape[0] - 1)
        rate = rate_of_rule(stopping_problem(grid, worth), everything)
        return StoppingBelief(source.init(key, num_prompts), fit, rate, table(everything))

    def pick(
        belief: StoppingBelief,
        count: Int[Array, ""],
        eligible: Bool[Array, " P"],
        visited: Bool[Array, " P"],
    ) -> tuple[StoppingBelief, Int[Array, " P"]]:
        inner, places = source.pick(belief.inner, count, eligible, visited)
        return belief._replace(inner=inner), places

    def learn(
        belief: StoppingBelief,
        visited: Bool[Array, " P"],
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
    ) -> StoppingBelief:
        inner = source.learn(belief.inner, visited, successes, failures)
        fit = learn_visits(grid, belief.fit, visited, successes, failures, discount)
        problem = stopping_problem(fitted(grid, fit), worth)
        rate = best_rate(problem)
        warm = jnp.sum(fit.counts) >= warm_up
        draws = jnp.where(warm, stopping_rule(problem, rate), everything)
        return StoppingBelief(inner, fit, rate, table(_with_start(draws)))

    return Source(init, pick, learn, lambda belief: source.score(belief.inner))


def _with_start(draws: Bool[Array, "M M"]) -> Bool[Array, "M M"]:
    """The first rollout is always drawn: at the best rate it is worth exactly nothing."""
    return draws.at[0, 0].set(True)

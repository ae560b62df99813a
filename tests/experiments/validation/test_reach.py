"""What a kernel is blamed for when it does not reach every sequence."""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.validate import main
from experiments.validation.findings import BIASED, OK, UNDERPOWERED, judge, law_finding, row_level
from experiments.validation.reach import follows, from_reached, reach_finding

LEVEL = row_level(1)

KERNELS = '''
import jax.numpy as jnp
from theory.generation import select, take
from theory.mcmc import suffix_regeneration, uniform_cut
from theory.protocols import Kernel


def mixes(alpha):
    """A right kernel."""
    return suffix_regeneration(alpha, alpha, uniform_cut())


def _together(model, chains):
    """All chains where the first one that starts with token 0 is."""
    starts = chains.generation.trajectories.tokens[:, 0] == 0
    rows = jnp.full(starts.shape, jnp.argmax(starts))
    return chains._replace(
        generation=take(model, chains.generation, rows),
        entropies=chains.entropies[rows],
        log_rewards=chains.log_rewards[rows],
    )


def stays(alpha):
    """Leaves every law as it is, and is put at a single sequence."""
    inner = mixes(alpha)
    return Kernel(
        lambda key, model, prompts: _together(model, inner.init(key, model, prompts)),
        lambda key, model, chains: (chains, ()),
    )


def narrow(alpha):
    """Moves well among the sequences that start with token 0, and never leaves them."""
    inner = mixes(alpha)

    def step(key, model, chains):
        new, info = inner.step(key, model, chains)
        inside = new.generation.trajectories.tokens[:, 0] == 0
        kept = chains._replace(
            generation=select(model, inside, new.generation, chains.generation),
            entropies=jnp.where(inside[:, None], new.entropies, chains.entropies),
            log_rewards=jnp.where(inside, new.log_rewards, chains.log_rewards),
            iteration=new.iteration,
        )
        return kept, info

    return Kernel(stays(alpha).init, step)
'''


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "reaching.py").write_text(KERNELS)
    for name, first in (("rare", [0.9975, 0.0025]), ("even", [0.6, 0.4])):
        model = {
            "kind": "markov", "vocab_size": 2, "max_length": 2, "eos": None, "initial": first,
            "transition": [[0.5, 0.5], [0.4, 0.6]],
        }  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(model))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "reaching", raising=False)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("models")
def test_what_is_never_reached_is_evidence_as_far_as_the_target_would_have_shown_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernels = "reaching:mixes,reaching:stays,reaching:narrow"
    cases = "even.json,rare.json"
    argv = ["--preset", "quick", "--kernel", kernels, "--case", cases, "--json", "-"]
    assert main(argv) == 1
    verdicts: dict[tuple[str, str], list[str]] = {}
    for row in json.loads(capsys.readouterr().out)["rows"]:
        verdicts.setdefault((row["kernel"].partition(":")[2], row["case"]), []).append(
            row["verdict"]
        )
    unknown = [UNDERPOWERED] * 3
    assert verdicts == {  # the reach, then the invariance after 1, 2 and 5 steps
        ("mixes", "even.json"): [OK, OK, OK, OK],
        ("mixes", "rare.json"): [OK, *unknown],
        ("stays", "even.json"): [UNDERPOWERED, *unknown],
        ("stays", "rare.json"): [UNDERPOWERED, *unknown],
        ("narrow", "even.json"): [BIASED, *unknown],
        ("narrow", "rare.json"): [OK, *unknown],
    }


def test_the_p_value_of_the_reach_is_valid() -> None:
    """P(p-value <= a) <= a for draws of the target, over all outcomes."""
    target, num_draws = np.array([0.5, 0.3, 0.15, 0.05]), 4
    by_p_value: dict[float, float] = {}
    for draws in itertools.product(range(4), repeat=num_draws):
        found = reach_finding(target, np.unique(draws), num_draws, True, 0.1)
        chance = math.prod(target[list(draws)].tolist())
        by_p_value[found.p_value] = by_p_value.get(found.p_value, 0.0) + chance
    below = 0.0
    for p_value in sorted(by_p_value):
        below += by_p_value[p_value]
        assert below <= p_value + 1e-12
    assert min(by_p_value) == pytest.approx(0.5**4, rel=1e-12)
    assert len(by_p_value) == 4


def test_estimate_and_truth_are_masses() -> None:
    target = np.array([0.5, 0.3, 0.2])
    found = reach_finding(target, np.array([0, 2]), 5, True, 0.1)
    assert found.estimate == pytest.approx(0.7)
    assert found.truth == pytest.approx(1 - sum(p * (1 - p) ** 5 for p in target.tolist()))
    assert found.p_value == pytest.approx(0.7**5 + 0.5**5)
    assert found.z > 0
    seen = found.detectable(LEVEL)
    assert 3 * (1 - seen) ** 5 == pytest.approx(LEVEL)


def test_chains_that_have_not_settled_are_not_blamed() -> None:
    target = np.array([0.6, 0.4])
    for settled, verdict in ((True, BIASED), (False, UNDERPOWERED)):
        found = reach_finding(target, np.array([0]), 4096, settled, 0.1)
        assert judge("own", "k", "c", found, LEVEL).verdict == verdict
    all_met = reach_finding(target, np.array([0, 1]), 4096, False, 0.1)
    assert judge("own", "k", "c", all_met, LEVEL).verdict == OK


def test_draws_from_what_is_reached_are_judged_with_their_odds() -> None:
    """Draws of pi given R are n-tuples at most 1 / r^n as likely as under pi."""
    target, reached = np.array([0.5, 0.3, 0.2]), np.array([0, 1])
    cells = np.repeat([0, 1], [30, 20])
    plain = law_finding("q", cells, target, 0.5)
    found = from_reached(plain, cells, target, reached)
    assert found.p_value == pytest.approx(min(1.0, plain.p_value / 0.8**50))
    assert found.detectable(1e-3) == plain.detectable(1e-3 * 0.8**50)
    nothing_missed = from_reached(plain, cells, target, np.arange(3))
    assert nothing_missed.p_value == pytest.approx(plain.p_value)


def test_a_p_value_that_underflows_is_no_proof_but_an_impossible_draw_is() -> None:
    target = np.array([0.6, 0.4])
    cells = np.zeros(8192, int)
    plain = law_finding("q", cells, target, 0.1)
    assert plain.p_value == 0.0
    found = from_reached(plain, cells, target, np.array([0]))
    assert judge("own", "k", "c", found, LEVEL).verdict == UNDERPOWERED
    cells[0] = 2
    found = from_reached(law_finding("q", cells, target, 0.1), cells, target, np.array([0]))
    assert judge("own", "k", "c", found, LEVEL).verdict == BIASED


def test_settled_is_a_law_and_not_a_place() -> None:
    target, reached = np.array([0.4, 0.4, 0.2]), np.array([0, 1])
    even = np.repeat([0, 1], 500)
    assert follows(even, target, reached)
    assert not follows(np.repeat([0, 1], [600, 400]), target, reached)
    assert not follows(np.zeros(1000, int), target, np.array([0]))
    assert not follows(np.full(1000, 3), target, np.array([], int))

"""What `rolloutlab sample` draws follows the law that the method is said to have, to the last step of a finite run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.sampled import (
    CASE,
    NUM,
    POWER,
    TABLE,
    Law,
    check_rows,
    check_weights,
    draw,
    named_law,
)
from tests.planted_bugs.sampled_rows import (
    one_row_of_each_population,
    proposals_in_place_of_states,
    sums_in_place_of_means,
    weights_at_another_alpha,
)
from tests.stat_asserts import assert_rejected
from theory.exact import (
    conditional_multinomial_offspring,
    laws_after,
    particle_gibbs_transition,
)
from theory.exact.sequence_space import proposal_law, sequence_space
from theory.exact.transition import suffix_transition, tempering_matrix
from theory.mcmc import CutLaw, entropy_cut, uniform_cut
from theory.mcmc.cuts import start_cut

N = ("--num", str(NUM), "--seed", "3")
ALPHA = 2.0
LOG_Z: float = POWER[2]["log_Z"]
POWER_LAW = named_law(POWER[2]["power"])
SUFFIX = ("--method", "suffix-mh", "--proposal-alpha", "1", "--steps", "2", *N)
# At alpha 1.5 the weights are even enough for a t-test.
MILD_LAW = named_law(POWER[1.5]["power"])
MILD = ("--alpha", "1.5", *N)
LOG_MILD_Z: float = POWER[1.5]["log_Z"]
FOURS = ("--particles", "4", *MILD)
IMPORTANCE = ("--method", "importance", "--proposal-alpha", "1", *MILD)
FILTER = ("--method", "smc", "--resampler", "multinomial", "--resample", "every", *FOURS)
PAIRS = ("--particles", "2", "--resampler", "multinomial", "--resample", "every", *N)


def reference(section: str, **wanted: Any) -> dict[str, Any]:
    return next(item for item in CASE[section] if wanted.items() <= item.items())


def after_steps(kind: str, steps: int, **wanted: Any) -> Law:
    item = reference(kind, **wanted)
    law = item["law_after_n_steps_from_proposal"][str(steps)]
    values = law.values() if isinstance(law, dict) else law
    return named_law(dict(zip(item["sequences"], values, strict=True)))


def chain_law(cut: CutLaw, proposal_alpha: float, steps: int, alpha: float = ALPHA) -> Law:
    space = sequence_space(TABLE, proposal_alpha)
    transition = suffix_transition(space, alpha, cut)
    law = laws_after(transition.matrix, proposal_law(space), steps)[-1]
    return dict(zip(space.sequences, law.tolist(), strict=True))


def sweeps_law(steps: int) -> Law:
    """Of particle Gibbs with two particles, multinomial resampling after every step but the last."""
    space = sequence_space(TABLE, ALPHA)
    matrix = particle_gibbs_transition(space, ALPHA, 2, (1, 2), conditional_multinomial_offspring)
    law = laws_after(matrix, proposal_law(space), steps)[-1]
    return dict(zip(space.sequences, law.tolist(), strict=True))


def last_rung_law(ladder: tuple[float, ...], steps: int) -> Law:
    sequences, matrix, _ = tempering_matrix(TABLE, ladder, uniform_cut())
    start = np.ones(1)
    for alpha in ladder:
        start = np.kron(start, proposal_law(sequence_space(TABLE, alpha)))
    law = (start @ np.linalg.matrix_power(matrix, steps)).reshape(-1, len(sequences)).sum(axis=0)
    return dict(zip(sequences, law.tolist(), strict=True))


LAWS: dict[str, tuple[tuple[str, ...], Law]] = {
    "ancestral": (("--method", "ancestral", *N), named_law(CASE["base"])),
    "temperature": (
        ("--method", "temperature", "--temperature", "0.5", *N),
        named_law(POWER[2]["temperature"]),
    ),
    "power-exact": (("--method", "power-exact", *N), POWER_LAW),
    "rejection": (("--method", "rejection", *N), POWER_LAW),
    "rejection-hot": (
        ("--method", "rejection", "--alpha", "4", "--proposal-alpha", "2", *N),
        named_law(POWER[4]["power"]),
    ),
    "independence-mh": (
        ("--method", "independence-mh", "--steps", "2", *N),
        chain_law(start_cut(), ALPHA, 2),
    ),
    "suffix-mh": (SUFFIX, after_steps("mh", 2, alpha=2, proposal_alpha=1)),
    "suffix-mh-entropy": (
        ("--method", "suffix-mh", "--alpha", "4", "--steps", "5", "--cut", "entropy", *N),
        chain_law(entropy_cut(), 4.0, 5, alpha=4.0),
    ),
    "multiple-try-mh": (
        ("--method", "multiple-try-mh", "--tries", "2", "--steps", "1", *N),
        after_steps("multiple_try_mh", 1, alpha=2, tries=2),
    ),
    "blockwise-mh": (
        ("--method", "blockwise-mh", "--alpha", "4", "--block", "2", "--steps", "2", *N),
        named_law(reference("blockwise_mcmc", alpha=4, block=2, moves_per_block=2)["output_law"]),
    ),
    "particle-gibbs": (
        ("--method", "particle-gibbs", "--steps", "2", *PAIRS),
        sweeps_law(2),
    ),
    "parallel-tempering": (
        ("--method", "parallel-tempering", "--ladder", "1,2", "--steps", "1", *N),
        last_rung_law((1.0, 2.0), 1),
    ),
    "smc": (
        ("--method", "smc", "--draw-one", *PAIRS),
        named_law(reference("smc", kind="plain", resample_after_steps=[1, 2])["final_draw_law"]),
    ),
    "smc-blocks": (
        ("--method", "smc", "--draw-one", "--block", "2", *PAIRS),
        named_law(reference("smc", kind="plain", resample_after_steps=[1])["final_draw_law"]),
    ),
    "adapted-smc": (
        ("--method", "adapted-smc", "--draw-one", *PAIRS),
        named_law(reference("smc", kind="adapted")["final_draw_law"]),
    ),
    "twisted-smc": (("--method", "twisted-smc", "--draw-one", *PAIRS), POWER_LAW),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "rejection-hot" else name
        for name in LAWS
        if name != "smc-blocks"
    ],
)
def test_rows_follow_the_exact_law_of_the_run(name: str) -> None:
    words, law = LAWS[name]
    check_rows(draw(*words), law)


def test_a_draw_from_a_density_has_that_density() -> None:
    """The law of the rows is the one that their behavior_logp states, truncation included."""
    rules = ("--method", "temperature", "--temperature", "2", "--top-p", "0.55", *N)
    for order in ("default", "llama.cpp"):
        rows = draw(*rules, "--order", order)
        law = {tuple(row["tokens"]): float(np.exp(row["behavior_logp"])) for row in rows}
        assert sum(law.values()) == pytest.approx(1, abs=1e-5)
        check_rows(rows, {cell: p / sum(law.values()) for cell, p in law.items()})
    hot, last = draw(*rules, "--order", "default"), draw(*rules, "--order", "llama.cpp")
    assert {tuple(row["tokens"]) for row in hot} != {tuple(row["tokens"]) for row in last}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        IMPORTANCE,
        FILTER,
        ("--method", "lookahead-smc", "--rollouts", "2", "--rollout-tokens", "1", *FOURS),
        ("--method", "smc", "--bridge", "linear", "--resample", "every", *FOURS),
        ("--method", "adapted-smc", "--ess-threshold", "0.9", *FOURS),
    ],
)
def test_weights_estimate_the_normaliser(words: tuple[str, ...]) -> None:
    check_weights(draw(*words), LOG_MILD_Z, smallest_bias=0.05)


@pytest.mark.slow
def test_a_perfect_twist_has_no_variance_and_a_poor_one_no_bias(tmp_path: Path) -> None:
    perfect = draw("--method", "twisted-smc", "--particles", "4", "--num", "50")
    np.testing.assert_allclose([row["log_Z_hat"] for row in perfect], LOG_Z, atol=1e-5)
    path = tmp_path / "twist.json"
    path.write_text(json.dumps(dict.fromkeys(POWER[2]["log_lookahead"], 0.0) | {"0": 0.5}))
    poor = draw("--method", "twisted-smc", "--twist", str(path), *FOURS)
    check_weights(poor, LOG_MILD_Z, smallest_bias=0.05)
    # A twist may be estimated too.
    few = ("--particles", "3", "--num", "20", "--rollouts", "2")
    rolled = draw("--method", "twisted-smc", "--twist", "lookahead", *few)
    same = draw("--method", "lookahead-smc", *few)
    assert [row["tokens"] for row in rolled] == [row["tokens"] for row in same]
    # With another proposal the twist only guides the resampling.
    words = ("--proposal-alpha", "1.5", "--resample", "every", *FOURS)
    check_weights(draw("--method", "twisted-smc", *words), LOG_MILD_Z, smallest_bias=0.05)


def test_a_file_with_the_exact_lookahead_is_the_exact_twist(tmp_path: Path) -> None:
    path = tmp_path / "twist.json"
    path.write_text(json.dumps(POWER[2]["log_lookahead"]))
    words = ("--method", "twisted-smc", "--particles", "4", "--num", "50")
    from_file, exact = draw(*words, "--twist", str(path)), draw(*words)
    assert [row["tokens"] for row in from_file] == [row["tokens"] for row in exact]
    np.testing.assert_allclose([row["log_Z_hat"] for row in from_file], LOG_Z, atol=1e-5)


def test_rewards_tilt_the_base(tmp_path: Path) -> None:
    """At beta 2, and with a forbidden sequence that chains may start on and must leave."""
    forbidden = "1 1 0"
    path = tmp_path / "reward.json"
    path.write_text(json.dumps(CASE["reward"] | {forbidden: -float("inf")}))
    words = ("--method", "tilted-mh", "--reward", str(path), "--beta", "2", "--steps", "16", *N)
    rewards = {tuple(map(int, name.split())): r / 2 for name, r in CASE["reward"].items()}
    rewards[tuple(map(int, forbidden.split()))] = -np.inf
    space = sequence_space(TABLE, 1.0, rewards.__getitem__)
    move = suffix_transition(space, 1.0, uniform_cut())
    law = laws_after(move.matrix, proposal_law(space), 16)[-1]
    check_rows(draw(*words), dict(zip(space.sequences, law.tolist(), strict=True)))


def test_planted_bugs_are_rejected() -> None:
    weighted = draw(*IMPORTANCE)
    wrong = weights_at_another_alpha(weighted, 1.3)
    assert_rejected(lambda: check_weights(wrong, LOG_MILD_Z, smallest_bias=0.1))
    filtered = draw(*FILTER)
    summed = sums_in_place_of_means(filtered, 4)
    assert_rejected(lambda: check_weights(summed, LOG_MILD_Z, smallest_bias=1.0))
    states = draw(*SUFFIX)
    starts = proposals_in_place_of_states(states, draw("--method", "ancestral", *N))
    assert_rejected(lambda: check_rows(starts, LAWS["suffix-mh"][1]))
    assert_rejected(lambda: check_rows(one_row_of_each_population(filtered), MILD_LAW))
    # The finite run and its target, the step and the block: each is told from the other.
    assert_rejected(lambda: check_rows(states, POWER_LAW))
    other = after_steps("mh", 5, alpha=2, proposal_alpha=1)
    assert_rejected(lambda: check_rows(states, other))
    assert_rejected(lambda: check_rows(draw(*LAWS["smc"][0]), POWER_LAW))

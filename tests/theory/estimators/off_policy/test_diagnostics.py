"""What belongs beside a reweighted number, and the inputs of public bug reports about it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import InvalidInput
from theory.estimators.off_policy import (
    effective_sizes,
    exact,
    importance_mean,
    largest_alpha,
    largest_alpha_of_rank,
    length_normalised_log_ratios,
    masked,
    missing_log_probs,
    per_decision_mean,
    power_accuracy,
    power_log_weights,
    self_normalised_mean,
    sequence_log_ratios,
    truncated,
    v_trace,
    weigh_tasks,
    weight_info,
)

LOG_WEIGHT = st.one_of(st.floats(-800, 800), st.sampled_from([0.0, 1.0, -np.inf, np.nan, np.inf]))
TASKS = st.lists(st.lists(LOG_WEIGHT, max_size=6), min_size=1, max_size=5)


def whole(num: int) -> np.ndarray:
    return np.array([0, num], np.int64)


def flat(tasks: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.array([len(task) for task in tasks])
    return np.array(list(itertools.chain(*tasks)), np.float64), np.append(
        0, np.cumsum(sizes)
    ).astype(np.int64)


@given(TASKS, st.randoms(use_true_random=False))
def test_every_task_by_its_own_and_in_any_order(tasks: list[list[float]], random: object) -> None:
    log_weights, offsets = flat(tasks)
    found = weight_info(log_weights, offsets)
    shuffled = [list(task) for task in tasks]
    for task in shuffled:
        random.shuffle(task)  # pyright: ignore[reportAttributeAccessIssue]
    again = weight_info(flat(shuffled)[0], offsets)
    for first, second in zip(found[:4], again[:4], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9)
    for i, task in enumerate(tasks):
        known = np.array([each for each in task if each < np.inf])
        if not known.size or np.isneginf(known).all():
            assert np.isnan(found.ess[i]) and np.isnan(found.largest_share[i])
            assert found.mean_weight[i] == 0 or not known.size
            continue
        weights = np.exp(known - known.max())
        assert found.ess[i] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert found.ess_fraction[i] == pytest.approx(found.ess[i] / known.size)
        assert 0 < found.ess_fraction[i] <= 1
        assert found.largest_share[i] == pytest.approx(1 / weights.sum())
        if known.max() < 700:
            assert found.mean_weight[i] == pytest.approx(np.exp(known).mean(), rel=1e-9)
    usable = log_weights[log_weights < np.inf]
    assert found.num_missing == log_weights.size - usable.size
    if np.isfinite(usable).any():
        weights = np.exp(usable - usable.max())
        assert found.pooled_ess == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert found.pooled_largest_share == pytest.approx(1 / weights.sum())


@given(TASKS, st.floats(-1e3, 1e3))
def test_a_constant_factor_of_all_weights_changes_nothing(
    tasks: list[list[float]], shift: float
) -> None:
    log_weights, offsets = flat(tasks)
    values = np.arange(log_weights.size) % 2.0
    there, back = (
        effective_sizes(weigh_tasks(w, offsets)) for w in (log_weights, log_weights + shift)
    )
    np.testing.assert_allclose(there, back, rtol=1e-9)
    means = [self_normalised_mean(w, values, offsets) for w in (log_weights, log_weights + shift)]
    np.testing.assert_allclose(*means, rtol=1e-9, atol=1e-12)


@given(
    st.lists(
        st.lists(
            st.tuples(LOG_WEIGHT, st.sampled_from([0.0, 1.0, 0.5, np.nan])), min_size=1, max_size=6
        ),
        min_size=1,
        max_size=4,
    )
)
def test_means_leave_out_rows_that_lack_a_weight_or_a_value(
    tasks: list[list[tuple[float, float]]],
) -> None:
    log_weights, offsets = flat([[w for w, _ in task] for task in tasks])
    values, _ = flat([[v for _, v in task] for task in tasks])
    plain = importance_mean(log_weights, values, offsets)
    normalised = self_normalised_mean(log_weights, values, offsets)
    for i, task in enumerate(tasks):
        rows = [(w, v) for w, v in task if w < np.inf and not np.isnan(v)]
        if not rows:
            assert np.isnan(plain[i]) and np.isnan(normalised[i])
            continue
        own, worth = (np.array(column) for column in zip(*rows, strict=True))
        if np.isneginf(own).all():
            assert plain[i] == 0 and np.isnan(normalised[i])
            continue
        weights = np.exp(own - own.max())
        total = (weights * worth).sum()
        assert normalised[i] == pytest.approx(total / weights.sum(), rel=1e-9, abs=1e-12)
        paid = own[worth > 0]
        if not paid.size or np.isneginf(paid).all():
            assert plain[i] == 0
        elif paid.max() < 700:  # whatever the weights of rows that are worth nothing
            expected = (np.exp(paid) * worth[worth > 0]).sum() / len(rows)
            assert plain[i] == pytest.approx(expected, rel=1e-9)


def test_ratios_that_overflow_before_the_reward_or_are_cut() -> None:
    huge = np.array([800.0, -800.0, np.nan])
    rewards = np.array([0.0, 3.0, 0.0])
    assert per_decision_mean(huge, rewards, whole(3))[0] == 3.0
    assert v_trace(huge[:1], np.ones(1), np.zeros(1), whole(1))[0] == 1.0


def test_tail_index_from_fifty_rows_on() -> None:
    log_weights = np.random.default_rng(0).normal(size=50)
    assert np.isfinite(weight_info(log_weights, whole(50)).pareto_k)
    assert np.isnan(weight_info(log_weights[:49], whole(49)).pareto_k)
    assert np.isnan(weight_info(np.append(log_weights[:49], np.nan), whole(50)).pareto_k)
    # Pareto weights with tail index 1: k-hat beside 1, not beside 0.
    heavy = -np.log(np.random.default_rng(1).random(4000))
    assert 0.7 < weight_info(heavy, whole(4000)).pareto_k < 1.4


def test_rows_of_tokens_and_rows_of_sequences() -> None:
    """Lengths 1 and 99, weights .01 and 2: per token nearly all is left, per sequence one of two."""
    sequences = np.log(np.array([0.01, 2.0]))
    tokens = np.repeat(sequences, [1, 99])
    assert weight_info(tokens, whole(100)).ess_fraction[0] == pytest.approx(0.990, abs=5e-4)
    assert weight_info(sequences, whole(2)).ess_fraction[0] == pytest.approx(0.505, abs=5e-4)


def test_sequence_power_is_not_its_length_normalised_form() -> None:
    log_probs, lengths = np.array([-10.0, -20.0, -40.0]), np.array([10, 40, 100])
    weights = power_log_weights(4.0, log_probs, log_probs)
    assert weight_info(weights, whole(3)).ess[0] == pytest.approx(1, abs=1e-9)
    normalised = weight_info(weights / lengths, whole(3))
    assert normalised.ess[0] == pytest.approx(2.305, abs=5e-4)
    assert normalised.largest_share[0] == pytest.approx(0.525, abs=5e-4)


def test_published_rollouts_look_healthy_length_normalised() -> None:
    log_probs = np.array([-172.42, -175.45, -160.04, -208.00, -187.37])
    lengths = np.array([785, 959, 1038, 964, 1277])
    weights = power_log_weights(2.0, log_probs, log_probs)
    assert weight_info(weights / lengths, whole(5)).ess[0] == pytest.approx(4.995, abs=5e-4)
    assert weight_info(weights, whole(5)).ess[0] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("kept", [0.9, 0.5])
def test_log_probs_over_the_kept_tokens_make_a_ratio_of_the_kept_mass(kept: float) -> None:
    """The policy has not changed, yet each ratio is the kept mass: to a hundred tokens a factor of kept^100."""
    logits = np.log(np.array([kept / 2, kept / 2, 1 - kept]))
    processed = logits[:2] - np.log(np.exp(logits[:2]).sum())
    ratio = logits[0] - processed[0]
    assert np.exp(ratio) == pytest.approx(kept)
    hundred = sequence_log_ratios(np.full(100, ratio), whole(100))
    assert np.exp(hundred[0]) == pytest.approx(kept**100)
    # Mended by adding the log of the kept mass to the sampler's side.
    mended = sequence_log_ratios(np.full(100, ratio - np.log(kept)), whole(100))
    assert mended[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("report", "found", "right"),
    [
        ("verl#6806", lambda: truncated(np.log([3.0]), 2.0, "seq").clipped_high, 1.0),
        ("verl#7559", lambda: masked(np.log([9.0, 0.1]), 0.5, 5.0, "token").zeroed, 1.0),
        (
            "verl#3984",
            lambda: importance_mean(
                masked(np.log([9.0, 0.1]), 0.5, 5.0, "token").log_weights, np.ones(2), whole(2)
            )[0],
            0.0,
        ),
        (
            "huggingface/trl#4772",
            lambda: np.exp(sequence_log_ratios(np.full(100, 0.012), whole(100))[0]),
            np.exp(1.2),
        ),
        (
            "huggingface/trl#4772, masked share",
            lambda: (
                masked(sequence_log_ratios(np.full(100, 0.012), whole(100)), 0.0, 3.0, "seq").zeroed
            ),
            1.0,
        ),
        (
            "huggingface/trl#5814, product",
            lambda: np.exp(sequence_log_ratios(np.full(200, 0.01), whole(200))[0]),
            np.exp(2.0),
        ),
        (
            "huggingface/trl#5814, another estimator",
            lambda: np.exp(length_normalised_log_ratios(np.full(200, 0.01), whole(200))[0]),
            np.exp(0.01),
        ),
        (
            "unslothai/unsloth-zoo#870",
            lambda: np.exp(sequence_log_ratios(np.zeros(200), whole(200))[0]),
            1.0,
        ),
        (
            "miles#1000",
            lambda: weight_info(
                sequence_log_ratios(np.log([1.0, 1, 1000, 1000]), np.array([0, 2, 4], np.int64)),
                whole(2),
            ).ess_fraction[0],
            0.5,
        ),
        ("certain tokens", lambda: float(missing_log_probs(np.zeros(1))[0]), 0.0),
        ("sentinel", lambda: float(missing_log_probs(np.array([-9999.0]))[0]), 1.0),
        ("impossible", lambda: float(missing_log_probs(np.array([0.1]))[0]), 1.0),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_inputs_of_bug_reports(report: str, found: object, right: float) -> None:
    assert found() == pytest.approx(right, rel=1e-5), report  # pyright: ignore[reportCallIssue]


def test_nothing_left_is_undefined_and_no_error() -> None:
    dropped = masked(np.log([9.0, 0.1]), 0.5, 5.0, "token").log_weights
    info = weight_info(dropped, whole(2))
    assert np.isnan(info.ess[0]) and np.isnan(info.pooled_ess) and info.mean_weight[0] == 0
    assert np.isnan(self_normalised_mean(dropped, np.ones(2), whole(2))[0])


def test_shares_are_of_raw_weights() -> None:
    raw = np.log(np.array([0.25, 0.5, 1, 2, 4, 8]))
    raw = np.concatenate([raw, [-np.inf, np.nan, np.inf]])
    cut = truncated(raw, 2.0, "seq")
    assert (cut.clipped_high, cut.clipped_low, cut.zeroed) == (2 / 7, 0.0, 1 / 7)
    np.testing.assert_allclose(np.exp(cut.log_weights[:6]), [0.25, 0.5, 1, 2, 2, 2])
    assert np.isneginf(cut.log_weights[6]) and np.isnan(cut.log_weights[7:]).all()
    kept = masked(raw, 0.5, 2.0, "token")
    assert (kept.clipped_high, kept.clipped_low, kept.zeroed) == (2 / 7, 2 / 7, 4 / 7)
    np.testing.assert_allclose(np.exp(kept.log_weights[:7]), [0, 0.5, 1, 2, 0, 0, 0])
    assert np.isnan(kept.log_weights[7:]).all()
    same = exact(raw, "seq")
    assert (same.clipped_high, same.clipped_low, same.zeroed) == (0.0, 0.0, 1 / 7)
    np.testing.assert_array_equal(same.log_weights[:7], raw[:7])
    assert [each.label for each in (cut, kept, same)] == ["tis-seq 2", "mask-token 0.5 2", "is-seq"]


def test_the_last_alpha_that_keeps_the_limit() -> None:
    log_probs = np.random.default_rng(4).normal(-40, 3, 32)
    offsets = np.array([0, 8, 16, 32], np.int64)

    def median(alpha: float) -> float:
        weights = weigh_tasks(power_log_weights(alpha, log_probs, log_probs), offsets)
        return float(np.median(effective_sizes(weights)))

    alpha = largest_alpha(log_probs, log_probs, offsets, 3.0)
    assert median(alpha) >= 3.0 > median(alpha * (1 + 1e-8)) and alpha > 1
    # Of a sampler that was sharpened already there may be nothing left at alpha = 1.
    assert np.isnan(largest_alpha(log_probs, 30 * log_probs, offsets, 4.0))
    assert np.isinf(largest_alpha(np.zeros(4), np.zeros(4), whole(4), 4.0))
    # The task of each rank by itself; the middle one is the median.
    num_tasks = offsets.size - 1
    ranks = [
        largest_alpha_of_rank(log_probs, log_probs, offsets, 3.0, rank + 1)
        for rank in range(num_tasks)
    ]
    assert ranks == sorted(ranks) and len(set(ranks)) > 1
    if num_tasks % 2:
        assert ranks[num_tasks // 2] == alpha
    for rank in (0, num_tasks + 1):
        with pytest.raises(InvalidInput, match="rank"):
            largest_alpha_of_rank(log_probs, log_probs, offsets, 3.0, rank)
    with pytest.raises(InvalidInput, match="above 1"):
        largest_alpha(log_probs, log_probs, offsets, 1.0)
    with pytest.raises(InvalidInput, match="no task has both"):
        largest_alpha(np.full(2, np.nan), np.zeros(2), whole(2), 2.0)


def test_weights_that_differ_in_last_bits_keep_all_rows() -> None:
    log_weights = 700 + 1e-13 * np.random.default_rng(2).integers(0, 3, 350)
    offsets = np.arange(0, 351, 7).astype(np.int64)
    found = power_accuracy(log_weights, np.ones(350), offsets, 7.0)
    assert not found.refused.any() and (found.ess < 7).any()

"""The density pieces, against hand-made numbers and against each other; the same in NumPy and in JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

from theory.errors import InvalidInput
from theory.ledger import spent, totals
from theory.mcmc.cuts import CutLaw, block_cut, entropy_cut, log_cut_probs, start_cut, uniform_cut
from theory.mcmc.density import (
    Records,
    log_move_weight,
    log_ratio,
    multiple_try_log_ratio,
    suffix_log_q,
)
from theory.mcmc.scoring import charge_scoring

CUT_LAWS = (uniform_cut(), block_cut(2), start_cut(), entropy_cut(), entropy_cut(2.5))


def random_records(seed: int, num: int, horizon: int) -> Records:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, horizon + 1, size=num)
    inside = np.arange(horizon) < lengths[:, None]
    log_p, log_q = -rng.exponential(size=(2, num, horizon)) * inside
    entropies = rng.exponential(size=(num, horizon)) * inside * (rng.random((num, horizon)) < 0.8)
    return Records(log_p, log_q, entropies, rng.normal(size=num), lengths)


def golden() -> tuple[Records, Records, np.ndarray]:
    """A published case: target -2, -4, -6 and proposal -1, -2, -3 against -1 and -.5 after a cut at 1."""
    current = Records(
        np.array([[-2.0, -4.0, -6.0]]),
        np.array([[-1.0, -2.0, -3.0]]),
        np.zeros((1, 3)),
        np.zeros(1),
        np.array([3]),
    )
    proposal = Records(
        np.array([[-2.0, -1.0, 0.0]]),
        np.array([[-1.0, -0.5, 0.0]]),
        np.zeros((1, 3)),
        np.zeros(1),
        np.array([2]),
    )
    return current, proposal, np.array([1])


def test_golden_ratio_and_its_reverse() -> None:
    current, proposal, cuts = golden()
    there = log_ratio(1.0, uniform_cut(), current, proposal, cuts)
    back = log_ratio(1.0, uniform_cut(), proposal, current, cuts)
    assert there[0] == pytest.approx(9 - 4.5 + np.log(1.5), abs=1e-12)
    assert there[0] == pytest.approx(4.905465, abs=1e-6)
    assert back[0] == pytest.approx(-there[0], abs=1e-12)


def test_target_exponent_multiplies_the_target_only() -> None:
    current, proposal, cuts = golden()
    ratio = log_ratio(0.5, uniform_cut(), current, proposal, cuts)
    assert ratio[0] == pytest.approx(0.5 * 9 - 4.5 + np.log(1.5), abs=1e-12)


@pytest.mark.parametrize("law", CUT_LAWS)
def test_ratio_is_the_formula_written_out(law: CutLaw) -> None:
    a, b = random_records(0, 40, 5), random_records(1, 40, 5)
    cuts = np.zeros(40, np.int64)
    ratio = log_ratio(1.7, law, a, b, cuts)
    for row in range(40):
        terms: list[float] = []
        for records in (b, a):
            length = records.lengths[row]
            weights = np.exp(
                np.asarray(law.log_weights(records.entropies, records.lengths))[row, :length]
            )
            target = 1.7 * records.log_p[row, :length].sum() + records.log_rewards[row]
            with np.errstate(divide="ignore"):
                log_cut = np.log(weights[0] / weights.sum())
            terms.append(target + log_cut - records.log_q[row, :length].sum())
        expected = -np.inf if terms[0] == -np.inf else terms[0] - terms[1]
        assert ratio[row] == pytest.approx(expected, abs=1e-12)


def test_suffix_is_what_is_not_kept() -> None:
    records = random_records(2, 30, 6)
    for cut in range(6):
        cuts = np.full(30, cut)
        expected = records.log_q[:, cut:].sum(axis=1)
        np.testing.assert_allclose(suffix_log_q(records, cuts), expected, atol=1e-12)


@pytest.mark.parametrize("law", CUT_LAWS)
def test_cut_laws_are_laws_on_the_sequence(law: CutLaw) -> None:
    records = random_records(3, 200, 7)
    probs = np.exp(log_cut_probs(law, records.entropies, records.lengths))
    np.testing.assert_allclose(probs.sum(axis=1), 1, atol=1e-12)
    assert not probs[np.arange(7) >= records.lengths[:, None]].any()


def test_cut_laws_by_hand() -> None:
    entropies, lengths = np.array([[0.5, 0.0, 1.5, 0.0, 9.0]]), np.array([4])

    def probs(law: CutLaw) -> list[float]:
        return np.exp(log_cut_probs(law, entropies, lengths))[0].tolist()

    assert probs(uniform_cut()) == pytest.approx([0.25, 0.25, 0.25, 0.25, 0])
    assert probs(block_cut(3)) == pytest.approx([0.5, 0, 0, 0.5, 0])
    assert probs(start_cut()) == pytest.approx([1, 0, 0, 0, 0])
    assert probs(entropy_cut()) == pytest.approx([0.25, 0, 0.75, 0, 0])
    assert probs(entropy_cut(2.0)) == pytest.approx([0.1, 0, 0.9, 0, 0])
    without = np.exp(log_cut_probs(entropy_cut(), 0 * entropies, lengths))[0]
    assert without.tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 0])


def test_zero_targets() -> None:
    records = random_records(4, 4, 3)
    forbidden = records._replace(log_rewards=np.full(4, -np.inf))
    cuts = np.zeros(4, np.int64)
    assert np.all(log_ratio(2.0, uniform_cut(), records, forbidden, cuts) == -np.inf)
    assert np.all(log_ratio(2.0, uniform_cut(), forbidden, records, cuts) == np.inf)
    assert np.all(log_ratio(2.0, uniform_cut(), forbidden, forbidden, cuts) == -np.inf)


def test_one_try_is_plain_metropolis() -> None:
    a, b = random_records(5, 30, 4), random_records(6, 30, 4)
    cuts = np.zeros(30, np.int64)
    candidate = log_move_weight(1.5, uniform_cut(), b, cuts)
    current = log_move_weight(1.5, uniform_cut(), a, cuts)
    several = multiple_try_log_ratio(np.asarray(candidate)[:, None], cuts, current)
    np.testing.assert_allclose(several, log_ratio(1.5, uniform_cut(), a, b, cuts), atol=1e-12)


def test_multiple_try_ratio_by_hand() -> None:
    weights = np.log(np.array([[2.0, 3.0, 5.0]]))
    ratio = multiple_try_log_ratio(weights, np.array([2]), np.log(np.array([7.0])))
    assert ratio[0] == pytest.approx(np.log(10 / 12), abs=1e-12)
    dead = np.full((1, 3), -np.inf)
    assert multiple_try_log_ratio(dead, np.array([0]), np.zeros(1))[0] == -np.inf


def in_single_precision(records: Records) -> Records:
    log_p, log_q, entropies, log_rewards = (jnp.asarray(each, jnp.float32) for each in records[:4])
    lengths = jnp.asarray(records.lengths, jnp.int32)
    return Records(log_p, log_q, entropies, log_rewards, lengths)


@pytest.mark.parametrize("law", CUT_LAWS)
def test_jax_agrees_with_numpy(law: CutLaw) -> None:
    a, b = random_records(7, 20, 4), random_records(8, 20, 4)
    cuts = np.zeros(20, np.int64)
    single = in_single_precision(a), in_single_precision(b)
    ratio = np.asarray(log_ratio(3.0, law, *single, jnp.zeros(20, jnp.int32)))
    assert ratio.dtype == np.float32
    np.testing.assert_allclose(ratio, log_ratio(3.0, law, a, b, cuts), rtol=2e-5, atol=2e-5)


def test_parameters_outside_their_domain_are_refused() -> None:
    with pytest.raises(InvalidInput, match="block of 0 tokens"):
        block_cut(0)
    for power in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="entropy power"):
            entropy_cut(power)


def test_scoring_charges_every_token_once() -> None:
    ledger = charge_scoring(spent(), jnp.zeros((3, 4), jnp.int32), jnp.array([1, 3, 2], jnp.int32))
    record = totals(ledger)
    assert record["prefill_tokens"] == record["row_steps_useful"] == 6
    assert record["row_steps_executed"] == 12 and record["model_calls"] == 1

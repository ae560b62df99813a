"""How the size of an update grows with the effective groups in it (SARA-6): not in proportion, but from noise to signal.

Of a batch of B groups, Y are effective, and the update is g = 1/B sum over them of push_i x_i. Given Y they are independent draws from the law of effective
groups; with m the mean and S the mean square of push x under it,

    E[ |g|^2 | Y ] = (Y S + Y (Y - 1) |m|^2) / B^2

so |g| grows like sqrt(Y) while the groups point every way and like Y once they agree, from about Y = S / |m|^2 on. The claim that it is proportional to Y
(arXiv 2607.26253, by name only) holds of the mean update alone. In exact float64, for prompts drawn with replacement, beside batches drawn at random.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import expit
from scipy.stats import binom

from experiments.allocation.regimes import SkillRegime
from experiments.allocation.worlds import draw_skill_prompts
from experiments.tables import schema

SCHEMA = schema(
    regime=str,
    policy=str,
    seed=int,
    effective=int,
    batches=int,
    squared_norm=float,
    standard_error=float,
    exact=float,
    turning_point=float,
)
"""squared_norm: mean of |g|^2 over the random batches with so many effective groups, with its standard error; exact: its expectation; turning_point: S / |m|^2, about
where the mean part of |g|^2 overtakes the noise."""


class EffectiveGroups(NamedTuple):
    """The law of one effective group of a random prompt.

    Attributes:
        share: P(a group is effective).
        mean: [S] m, of push times features.
        mean_square: S, of its squared length.
    """

    share: float
    mean: Float64[np.ndarray, " S"]
    mean_square: float


def effective_groups(
    features: Float64[np.ndarray, "P S"], rates: Float64[np.ndarray, " P"], group_size: int
) -> EffectiveGroups:
    """The law at a policy, by summing over prompts and outcomes.

    Args:
        features: [P, S] of the prompts.
        rates: [P] success rates.
        group_size: n.

    Returns:
        Share and moments.
    """
    successes = np.arange(group_size + 1)
    chances = binom.pmf(successes[None, :], group_size, rates[:, None])
    push = np.sqrt(successes * (group_size - successes)) / group_size
    share = float(chances[:, 1:-1].sum(axis=1).mean())
    mean = (chances @ push) @ features / (len(rates) * share)
    lengths = (features**2).sum(axis=1)
    return EffectiveGroups(share, mean, float((chances @ push**2 @ lengths) / (len(rates) * share)))


def squared_norm(
    law: EffectiveGroups, effective: Int64[np.ndarray, " Y"], batch_size: int
) -> Float64[np.ndarray, " Y"]:
    """E[ |g|^2 | Y ].

    Args:
        law: of an effective group.
        effective: [Y] effective groups of the batch.
        batch_size: B.

    Returns:
        [Y].
    """
    pairs = effective * (effective - 1) * float(law.mean @ law.mean)
    return (effective * law.mean_square + pairs) / batch_size**2


def random_batches(
    rng: np.random.Generator,
    features: Float64[np.ndarray, "P S"],
    rates: Float64[np.ndarray, " P"],
    regime: SkillRegime,
    num_batches: int,
) -> tuple[Int64[np.ndarray, " R"], Float64[np.ndarray, " R"]]:
    """Batches of uniform allocation at one policy.

    Args:
        rng: of prompts and rollouts.
        features: [P, S] of the prompts.
        rates: [P] success rates.
        regime: with batch and group size.
        num_batches: R.

    Returns:
        Effective groups and squared length of the update, of each batch.
    """
    prompts = rng.integers(len(rates), size=(num_batches, regime.batch_size))
    size = regime.group_size
    successes = rng.binomial(size, rates[prompts])
    push = np.sqrt(successes * (size - successes)) / size
    update = np.einsum("rb,rbs->rs", push, features[prompts]) / regime.batch_size
    return ((successes > 0) & (successes < size)).sum(axis=1), (update**2).sum(axis=1)


def rows(
    regime: SkillRegime, seeds: range, num_batches: int, num_steps: int
) -> Iterator[dict[str, Any]]:
    """The table.

    Args:
        regime: of prompts.
        seeds: of the prompts.
        num_batches: random batches at each policy.
        num_steps: steps of the expected update of uniform allocation that lead to the second policy.

    Yields:
        Rows of `SCHEMA`, for every number of effective groups seen at least 30 times.
    """
    for seed in seeds:
        drawn = draw_skill_prompts(jax.random.fold_in(jax.random.key(seed), 0), regime)
        features, difficulty = (
            np.asarray(part, np.float64)[: regime.num_prompts]
            for part in (drawn.features, drawn.difficulty)
        )
        parameters = np.zeros(features.shape[1])
        rng = np.random.default_rng(seed)
        for policy, steps in (("start", 0), (f"after {num_steps} updates", num_steps)):
            for _ in range(steps):
                law = effective_groups(
                    features, expit(features @ parameters - difficulty), regime.group_size
                )
                parameters += regime.learning_rate * law.share * law.mean
            rates = expit(features @ parameters - difficulty)
            law = effective_groups(features, rates, regime.group_size)
            counts, squares = random_batches(rng, features, rates, regime, num_batches)
            for effective in np.flatnonzero(np.bincount(counts) >= 30):
                mine = squares[counts == effective]
                yield {
                    "regime": regime.name,
                    "policy": policy,
                    "seed": seed,
                    "effective": int(effective),
                    "batches": len(mine),
                    "squared_norm": mine.mean(),
                    "standard_error": mine.std(ddof=1) / np.sqrt(len(mine)),
                    "exact": float(squared_norm(law, np.array([effective]), regime.batch_size)[0]),
                    "turning_point": law.mean_square / float(law.mean @ law.mean),
                }

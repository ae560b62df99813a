"""Skills on digits, and how well each of their facts is known.

A skill is an affine map x -> (a x + b) mod 10; a fact is what one skill does to one digit. It is known with probability

    q(s, x) = sigmoid(z_s + e_sx), clipped to [.001, .9998],        e_sx ~ N(0, fact_sd^2),

with z_s = 9 for mastered skills, -7 for hopeless ones and N(mean, sd^2) for the rest: shares of easy, hopeless and mixed prompts are dials.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

NUM_DIGITS = 10
# A multiplier of 5 leaves two results, and 0 one.
MULTIPLIERS = (1, 2, 3, 4, 6, 7, 8, 9)
Z_MASTERED, Z_HOPELESS = 9.0, -7.0
LEAST_Q, MOST_Q = 1e-3, 1 - 2e-4


class SkillChainDesign(NamedTuple):
    """How difficult the skills are.

    Attributes:
        seed: of the skills and their facts: another seed is another task.
        lengths: numbers of skills in a prompt; all equally frequent.
        num_skills: at most 80, the number of affine maps.
        share_mastered: of the skills.
        share_hopeless: of the skills.
        mean: of z of the other skills.
        sd: of z of the other skills.
        fact_sd: of what distinguishes the facts of one skill.
    """

    seed: int = 0
    lengths: tuple[int, ...] = (2, 3, 4)
    num_skills: int = 40
    share_mastered: float = 0.8
    share_hopeless: float = 0.0
    mean: float = -1.0
    sd: float = 3.0
    fact_sd: float = 1.0


class Facts(NamedTuple):
    """What each of S skills does to each digit.

    Attributes:
        results: [S, 10] the right digit.
        misconceptions: [S, 10] the wrong digit that is shown instead.
        q: [S, 10] how often the right one is shown.
    """

    results: Int[np.ndarray, "S 10"]
    misconceptions: Int[np.ndarray, "S 10"]
    q: Float64[np.ndarray, "S 10"]


def make_facts(design: SkillChainDesign) -> Facts:
    """Draw the skills and how well each of their facts is known.

    Args:
        design: of the difficulty.

    Returns:
        The facts of S different affine maps.
    """
    generator = np.random.default_rng(design.seed)
    maps = np.array([(a, b) for a in MULTIPLIERS for b in range(NUM_DIGITS)])
    chosen = generator.permutation(len(maps))[: design.num_skills]
    digits = np.arange(NUM_DIGITS)
    results = (maps[chosen, :1] * digits + maps[chosen, 1:]) % NUM_DIGITS
    offsets = generator.integers(1, NUM_DIGITS, results.shape)
    z = design.mean + design.sd * generator.normal(size=design.num_skills)
    num_mastered = round(design.share_mastered * design.num_skills)
    num_hopeless = round(design.share_hopeless * design.num_skills)
    z[:num_mastered] = Z_MASTERED
    z[num_mastered : num_mastered + num_hopeless] = Z_HOPELESS
    # The number of a skill says nothing about it.
    z = generator.permutation(z)
    log_odds = z[:, None] + design.fact_sd * generator.normal(size=results.shape)
    q = np.clip(1 / (1 + np.exp(-log_odds)), LEAST_Q, MOST_Q)
    return Facts(results, (results + offsets) % NUM_DIGITS, q)


def pass_at_1(facts: Facts, length: int) -> float:
    """Exact pass@1 of the law that models are trained on, over all prompts of one length.

    Args:
        facts: of the skills.
        length: L.

    Returns:
        The mean of `success_probability` over 10 S^L prompts, by a dynamic program over digits.
    """
    success = np.ones(NUM_DIGITS)
    for _ in range(length):
        success = (facts.q * success[facts.results]).mean(axis=0)
    return float(success.mean())

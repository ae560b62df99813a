"""The regimes, written down before any rule ran on them; all are reported, whoever wins.

Populations of success rates are those of allocation.md 6.2 (development) and two that are no mixture of Beta laws and atoms (held out): no
rule, prior grid or threshold of this project was chosen by looking at the held-out ones. Regimes of moving policies are those of
allocation.md 6.5, whose figures come from one toy with two or three seeds: directions and rough sizes, to be repeated with more seeds.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Population:
    """A law of success rates of prompts.

    Attributes:
        name: of the row in tables.
        betas: (weight, a, b) of its Beta laws.
        points: (weight, point) of its atoms.
        logit_normals: (weight, mean, standard deviation) of the laws of logit p.
        held_out: whether nothing was chosen by looking at it.
    """

    name: str
    betas: tuple[tuple[float, float, float], ...] = ()
    points: tuple[tuple[float, float], ...] = ()
    logit_normals: tuple[tuple[float, float, float], ...] = ()
    held_out: bool = False


POPULATIONS = (
    Population("flat", betas=((1.0, 1.0, 1.0),)),
    Population("beta-.3-.3", betas=((1.0, 0.3, 0.3),)),
    Population("beta-.15-.15", betas=((1.0, 0.15, 0.15),)),
    Population("published", betas=((0.36, 2.5, 2.5),), points=((0.32, 0.0), (0.32, 1.0))),
    Population("flat-and-atoms", betas=((0.6, 1.0, 1.0),), points=((0.2, 0.0), (0.2, 1.0))),
    Population("all-hard", points=((1.0, 0.02),)),
    Population("logit-normal-0-8", logit_normals=((1.0, 0.0, 8.0),), held_out=True),
    Population("logit-normal--2-4", logit_normals=((1.0, -2.0, 4.0),), held_out=True),
)
"""Six to develop on, with the published mixture and a negative control among them, and two held out."""


@dataclass(frozen=True)
class SkillRegime:
    """A policy that learns, on prompts that share skills.

    p_i = sigmoid(x_i . w - b_i) with three of the skills in each x_i and b_i normal; one step of stochastic gradient an update, by the
    advantages of the groups that the rule delivers.

    Attributes:
        name: of the row in tables.
        spread: standard deviation of the difficulties b_i, in logits.
        mean_difficulty: of the b_i.
        group_size: n, rollouts of a full group.
        num_prompts: N of the training pool; as many others are held out for evaluation.
        batch_size: B, groups of an update.
        learning_rate: of the plain gradient step.
    """

    name: str
    spread: float
    mean_difficulty: float
    group_size: int
    num_prompts: int
    batch_size: int = 64
    learning_rate: float = 0.15


FIXED_UPDATES = 200
"""Updates of the regimes below that are read at a fixed number of them."""

FIXED_UPDATE_REGIMES = (
    SkillRegime("N1024-n16-sd8", 8.0, 2.0, 16, 1024),
    SkillRegime("N1024-n8-sd8", 8.0, 2.0, 8, 1024),
    SkillRegime("N2048-n8-sd8", 8.0, 2.0, 8, 2048),
    SkillRegime("N1024-n8-sd12", 12.0, 4.0, 8, 1024),
)
"""Rollouts per update and accuracy at a fixed number of updates: how SARA was most likely judged (allocation.md 6.5, second table)."""

TARGET_REGIMES = (
    SkillRegime("A", 4.0, 1.0, 16, 4096),
    SkillRegime("B", 8.0, 2.0, 8, 8192),
    SkillRegime("C", 8.0, 2.0, 16, 8192),
    SkillRegime("D", 12.0, 4.0, 8, 8192),
    SkillRegime("E", 6.0, 4.0, 16, 8192),
    SkillRegime("F", 10.0, 0.0, 8, 8192),
)
"""Rollouts until the smoothed held-out curve of uniform GRPO has its peak (allocation.md 6.5, first table)."""

NUM_SKILLS = 24
SKILLS_PER_PROMPT = 3
NUM_SEEDS = 8
"""Independent tasks, orders and rollouts of every regime; an interval is over these."""


@dataclass(frozen=True)
class Drift:
    """Success rates that move without regard to the rule, by a step an update.

    Attributes:
        kind: `exchange`, `walk` or `trend`.
        rate: of the step.
    """

    kind: str
    rate: float


EXCHANGE, WALK, TREND = "exchange", "walk", "trend"

DRIFT_RATES = {
    EXCHANGE: (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
    WALK: (0.1, 0.25, 0.5, 1.0, 2.0),
    TREND: (0.025, 0.05, 0.1),
}
"""`exchange`: every prompt has a normal score z <- sqrt(1 - rate^2) z + rate N(0, 1), and the rates of the pool, which stay the same, are dealt out in the order of
the scores; at 0 nothing moves, at 1 every update deals anew. `walk`: logit p <- logit p + rate N(0, 1). `trend`: logit p <- logit p + rate, for all prompts. The last
two start between -`LOGIT_END` and `LOGIT_END` and are reflected there, so that hopeless and mastered prompts can move."""

LOGIT_END = 6.0
"""A success rate of .0025, or .9975."""

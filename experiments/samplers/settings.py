"""Every knob of every sampler, resolved and checked once. A pytree: numbers that shape the program are static, tables are leaves."""

from dataclasses import dataclass

from models.pytree import register_pytree
from theory.exact.laws import PowerLaw
from theory.protocols import LogReward
from theory.smc.twisted import LogTwist


@register_pytree(
    static=(
        "alpha",
        "proposal_alpha",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "order",
        "log_bound",
        "max_rounds",
        "steps",
        "cut",
        "tries",
        "block",
        "particles",
        "resample",
        "ess_threshold",
        "resampler",
        "bridge",
        "ramp",
        "draw_one",
        "rollouts",
        "rollout_tokens",
        "ladder",
        "beta",
        "induced",
    )
)
@dataclass(frozen=True, eq=False)
class Settings:
    """What a sampler reads; a method reads only its own. `catalogue.make_settings` makes them.

    Attributes:
        alpha: exponent of the target p(y)^alpha.
        proposal_alpha: exponent of the proposal's next-token laws (token temperature 1/proposal_alpha).
        temperature: T of the token rules.
        top_k: tokens kept, or None.
        top_p: nucleus kept, or None.
        min_p: least probability kept, relative to the largest, or None.
        order: of the token rules: "default", a library, or names of rules with commas between them.
        log_bound: of log p^alpha / q, for rejection.
        max_rounds: proposals of one row at most, for rejection.
        steps: moves of a chain, or of one stage.
        cut: where suffix moves cut, "uniform" or "entropy".
        tries: candidates in a multiple-try move.
        block: tokens between resamplings, or in a stage.
        particles: N in a population.
        resample: "every", "never" or "ess".
        ess_threshold: share of N below which "ess" resamples.
        resampler: name of the scheme.
        bridge: "none" or "linear".
        ramp: tokens over which the exponent rises; None for half the horizon.
        draw_one: whether one row of each population is drawn.
        rollouts: continuations of each particle that estimate its twist.
        rollout_tokens: most tokens of a continuation; None for the horizon.
        ladder: exponents of parallel tempering, ascending to alpha.
        beta: scale of the reward.
        induced: whether a twist also makes the proposal.
        twist: log psi of prefixes; None where it is estimated by rollouts.
        reward: of whole sequences.
        power: the exact law, for exact draws.
    """

    alpha: float = 2.0
    proposal_alpha: float = 2.0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    order: str = "default"
    log_bound: float = 0.0
    max_rounds: int = 100_000
    steps: int = 10
    cut: str = "uniform"
    tries: int = 4
    block: int = 1
    particles: int = 64
    resample: str = "ess"
    ess_threshold: float = 0.5
    resampler: str = "systematic"
    bridge: str = "none"
    ramp: int | None = None
    draw_one: bool = False
    rollouts: int = 4
    rollout_tokens: int | None = None
    ladder: tuple[float, ...] = ()
    beta: float = 1.0
    induced: bool = True
    twist: LogTwist | None = None
    reward: LogReward | None = None
    power: PowerLaw | None = None

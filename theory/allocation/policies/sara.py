"""SARA: draw one rollout at a time, and stop as soon as the group's fate is likely enough.

With P_eff(s, f; n) the probability that a group of n ends mixed (`theory.allocation.beta_binomial.probability_effective`): commit to a group that is mixed,
abandon one with P_eff <= tau_low, else draw one more. Source: "Early Verdicts, Better Budgets", arXiv 2607.26253 (2026), of which the abstract and notes of
readers were seen: tau_low .45, a flat prior and a probe of 4 are second-hand, n = 8 is inferred, the upper threshold is not known (every value in
(.778, 1] is the same rule at n = 8). What the paper's theorems need is in `theory.exact.allocation.claims`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theory.allocation.assembly import assemble, top_up
from theory.allocation.beta_binomial import probability_effective
from theory.allocation.priors import BetaMixture, beta
from theory.allocation.records import (
    Decision,
    Reason,
    Requests,
    check_share,
    check_whole,
    served,
)
from theory.allocation.sequential import ActionTable, lattice, make_table, table_rule
from theory.allocation.sources import Source, epochs
from theory.errors import InvalidInput
from theory.protocols import Allocator

TAU_LOW = 0.45
TAU_HIGH = 1.0


def allocate(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    group_size: Int[Array, ""] | int,
    tau_low: Float[Array, ""] | float = TAU_LOW,
    tau_high: Float[Array, ""] | float = TAU_HIGH,
) -> Requests:
    """One step for every prompt: commit, abandon, or one more rollout.

        mixed, or P_eff >= tau_high     COMMIT, n - s - f more
        P_eff <= tau_low                ABANDON
        else                            CONTINUE, 1 more

    Args:
        prior: of the success rate.
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: most rollouts in all; prompts are served in order, and short of budget the decision stands and what is left is drawn.
        group_size: n.
        tau_low: abandon at or below; equal to rounding counts as equal.
        tau_high: commit at or above; at 1, mixed groups only.

    Returns:
        What to draw; the score is P_eff.
    """
    chance = probability_effective(prior, successes, failures, group_size)
    missing = jnp.maximum(group_size - successes - failures, 0)
    commits = (successes > 0) & (failures > 0)
    commits = commits | (_reaches(chance, tau_high) & (tau_high < 1) & (missing > 0))
    abandons = ~commits & (_reaches(-chance, -tau_low) | (missing == 0))
    more = jnp.where(commits, missing, jnp.where(abandons, 0, 1)).astype(successes.dtype)
    decision = jnp.where(abandons, int(Decision.ABANDON), int(Decision.CONTINUE))
    decision = jnp.where(commits, int(Decision.COMMIT), decision)
    reason = jnp.where(commits, int(Reason.COMMIT), int(Reason.PILOT))
    return Requests(served(more, budget), decision, reason, chance)


def _reaches(value: Float[Array, "*shape"], threshold: Float[Array, ""] | float) -> Array:
    """Value >= threshold; equal fractions may differ by some roundings of their floating-point forms."""
    return value >= threshold - 64 * float(jnp.finfo(value.dtype).eps)


def table(
    prior: BetaMixture, group_size: int, tau_low: float = TAU_LOW, tau_high: float = TAU_HIGH
) -> ActionTable:
    """The sequential rule on the lattice.

    Args:
        prior: of the success rate.
        group_size: n.
        tau_low: see `allocate`.
        tau_high: see `allocate`.

    Returns:
        Its action table.

    Raises:
        InvalidInput: a threshold outside [0, 1], the upper below the lower, or a group below 2.
    """
    check_whole("group size", group_size, 2)
    check_share("tau low", tau_low)
    if check_share("tau high", tau_high) <= tau_low:
        raise InvalidInput(f"tau high {tau_high}: must be above tau low {tau_low}")
    s, f = lattice(group_size)
    # One program instead of some hundred small ones: a rule is made far more often than its shapes change.
    wish = jax.jit(allocate)(
        prior, s.ravel(), f.ravel(), s.size * group_size, group_size, tau_low, tau_high
    )
    decision = wish.decision.reshape(s.shape)
    return make_table(decision == Decision.COMMIT, decision == Decision.ABANDON, 1)


def probe_table(group_size: int, probe: int = 4) -> ActionTable:
    """The form for batched generation: K rollouts at once, then commit if they are mixed, else abandon.

    At n = 8, tau .45 and a flat prior it trains on the same groups as the sequential rule, which stops at the fourth equal outcome
    and may commit sooner.

    Args:
        group_size: n.
        probe: K, 2 to n.

    Returns:
        Its action table.

    Raises:
        InvalidInput: K is outside 2..n.
    """
    if check_whole("probe", probe, 2) > group_size:
        raise InvalidInput(f"probe {probe}: must be at most the group size {group_size}")
    s, f = lattice(group_size)
    probed = s + f >= probe
    mixed = (s > 0) & (f > 0)
    return make_table(probed & mixed, probed & ~mixed, jnp.maximum(probe - s - f, 0))


def stopping_size(group_size: int, tau_low: float = TAU_LOW) -> int:
    """Equal outcomes at which the rule gives up under the flat prior.

        m* = smallest m with 1 - (m + 1) / (n + 1) <= tau_low

    Args:
        group_size: n.
        tau_low: see `allocate`.

    Returns:
        m*, at least 1 (no outcome and one outcome have the same P_eff) and at most n.
    """
    decision = table(beta(1.0, 1.0), group_size, tau_low).decision[:, 0]
    return int(jnp.argmax(decision == Decision.ABANDON))


def log_likelihood_ratio(
    prior: BetaMixture,
    successes: Int[Array, "*batch"],
    failures: Int[Array, "*batch"],
    group_size: int,
) -> Float[Array, "*batch"]:
    """SARA as a sequential probability ratio test of "ends mixed" against "ends unmixed".

        log P(s, f | mixed) / P(s, f | unmixed) = logit P_eff(s, f) - logit P_eff(0, 0)

    Reconstruction; the paper speaks of Wald's test and was not seen.

    Args:
        prior: of the success rate.
        successes: s.
        failures: f.
        group_size: n.

    Returns:
        Natural log; inf for a mixed group.
    """
    chance = probability_effective(prior, successes, failures, group_size)
    start = probability_effective(
        prior, jnp.zeros_like(successes), jnp.zeros_like(failures), group_size
    )
    return _logit(chance) - _logit(start)


def wald_thresholds(
    prior: BetaMixture, group_size: int, false_commit: float, missed: float
) -> tuple[float, float]:
    """Thresholds on P_eff that are Wald's on the likelihood ratio.

        log A = log((1 - missed) / false_commit),  log B = log(missed / (1 - false_commit)),  tau = sigmoid(logit P_eff(0, 0) + log A or B)

    Wald's bounds hold for both errors: P(commit | unmixed) <= false_commit / (1 - missed), P(abandon | mixed) <= missed / (1 - false_commit).
    Source: Wald 1945, Annals of Mathematical Statistics 16, section 3.2; its use here is a reconstruction.

    Args:
        prior: of the success rate.
        group_size: n.
        false_commit: share of the unmixed groups that may be committed, in (0, 1).
        missed: share of the mixed groups that may be abandoned, in (0, 1).

    Returns:
        tau_low and tau_high.

    Raises:
        InvalidInput: an error outside (0, 1), or both together 1 or more.
    """
    if not (0 < false_commit and 0 < missed and false_commit + missed < 1):
        raise InvalidInput(
            f"errors {false_commit} and {missed}: must be above 0 and below 1 together"
        )
    zero = jnp.zeros((), jnp.int32)
    start = _logit(probability_effective(prior, zero, zero, group_size))
    low = start + jnp.log(missed / (1 - false_commit))
    high = start + jnp.log((1 - missed) / false_commit)
    return float(1 / (1 + jnp.exp(-low))), float(1 / (1 + jnp.exp(-high)))


def _logit(chance: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return jnp.log(chance) - jnp.log1p(-chance)


def allocator(
    batch_size: int,
    group_size: int,
    tau_low: float = TAU_LOW,
    tau_high: float = TAU_HIGH,
    prior: BetaMixture | None = None,
    source: Source | None = None,
) -> Allocator:
    """SARA in a training loop: as many prompts open as groups are needed, one rollout of each a round.

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        tau_low: see `allocate`.
        tau_high: see `allocate`.
        prior: of the success rate; flat by default, and never changed.
        source: which prompts; every prompt once an epoch by default. With `theory.allocation.policies.dps.source` it is SARA on DPS.

    Returns:
        The allocator.

    Raises:
        InvalidInput: see `table`; or a batch below 1.
    """
    rule = table_rule(
        table(beta(1.0, 1.0) if prior is None else prior, group_size, tau_low, tau_high)
    )
    return assemble(epochs() if source is None else source, rule, top_up(batch_size), batch_size)


def probe_allocator(
    batch_size: int, group_size: int, probe: int = 4, source: Source | None = None
) -> Allocator:
    """The probe form in a training loop: two calls decide and complete a group.

    Args:
        batch_size: B, mixed groups an update.
        group_size: n.
        probe: K.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: see `probe_table`; or a batch below 1.
    """
    return assemble(
        epochs() if source is None else source,
        table_rule(probe_table(group_size, probe)),
        top_up(batch_size),
        batch_size,
    )

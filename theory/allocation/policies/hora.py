"""HORA: the next rollouts go where a first success is most likely to be added.

The hit utility of m more rollouts of a prompt is the posterior probability that one of them is right, H(m) = 1 - E[(1 - p)^m | s, f]. A batch's extra
budget is spent so that the sum of H over its prompts is largest: by the R largest marginals M(l) = E[p (1 - p)^l | s, f], since they decrease in l. It buys
coverage, not mixed groups: prompts without a success end with most of the budget.

Source: "Where to Spend Rollouts", arXiv 2605.07114 (2026), of which the abstract was seen; two phases, greedy rule and recurrence are second-hand, the proof
of optimality is ours. `allocate_mass_aware` is of an independent re-implementation, not of the paper.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from theory.allocation.assembly import Rule, assemble, once, scores
from theory.allocation.beta_rows import Rows, cut_beta_rows, fill_rows
from theory.allocation.marginals import LogMarginal, cut_rows, largest
from theory.allocation.prior_source import PriorLearner, learned_prior_epochs, prior_of_prompts
from theory.allocation.priors import BetaMixture, beta, log_moment, posterior
from theory.allocation.records import (
    Decision,
    Reason,
    Requests,
    check_whole,
    filled,
)
from theory.allocation.sources import Belief, Source, epochs
from theory.errors import InvalidInput
from theory.protocols import Allocator

# A pass over the entries of Beta rows takes a step a column: with more columns than this, and few rows, bisection is faster.
_MOST_COLUMNS = 4096
_FEW_ROWS = 2048


def allocate(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    cap: Int[Array, ""] | int | None = None,
) -> Requests:
    """Maximise the sum of hit utilities of the extra rollouts.

        maximise sum_i H_i(m_i) over whole m_i >= 0 with sum R, s_i + f_i + m_i <= cap

    Args:
        prior: of the success rate; its arrays may have a leading axis [P], a prior for each prompt.
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: R, spent exactly unless every prompt is at the cap.
        cap: most rollouts of a group, those seen included; none by default.

    Returns:
        What to draw: COMMIT where something is drawn, NONE elsewhere; the score is the first marginal, the posterior mean.
    """
    return _allocated(prior, successes, failures, budget, cap, jnp.zeros_like(successes))


def allocate_mass_aware(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    cap: Int[Array, ""] | int | None = None,
) -> Requests:
    """The variant whose exponent counts the rollouts seen as well.

        maximise sum_i 1 - E[(1 - p_i)^(s_i + f_i + m_i) | s_i, f_i],   marginals E[p (1 - p)^(s + f + l) | s, f]

    Args:
        prior: see `allocate`.
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: see `allocate`.
        cap: see `allocate`.

    Returns:
        As `allocate`; the score is the first marginal.
    """
    return _allocated(prior, successes, failures, budget, cap, successes + failures)


def hit_rows(
    prior: BetaMixture,
    successes: Int[Array, " U"],
    failures: Int[Array, " U"],
    offset: Int[Array, " U"],
) -> LogMarginal:
    """Log E[p (1 - p)^(offset + l) | s, f] as a function of the columns l.

    Args:
        prior: of the success rate.
        successes: [U] right rollouts so far.
        failures: [U] wrong ones.
        offset: [U] 0 for the published rule.

    Returns:
        The rows of the marginal matrix.
    """
    law = posterior(prior, successes, failures)

    def log_marginal(columns: Int[Array, " U"]) -> Array:
        return log_moment(law, jnp.ones_like(columns), columns + offset)

    return log_marginal


def room(
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    cap: Int[Array, ""] | int | None,
) -> Int[Array, " P"]:
    """Rollouts that each prompt may still get.

    Args:
        successes: [P] right rollouts so far.
        failures: [P] wrong ones.
        budget: of all of them.
        cap: most rollouts of a group.

    Returns:
        [P] not negative.
    """
    most = jnp.full_like(successes, budget)
    if cap is None:
        return most
    return jnp.minimum(most, jnp.maximum(cap - successes - failures, 0))


def _allocated(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: Int[Array, ""] | int,
    cap: Int[Array, ""] | int | None,
    offset: Int[Array, " P"],
) -> Requests:
    rows = hit_rows(prior, successes, failures, offset)
    additional = largest(rows, room(successes, failures, budget, cap), budget)
    return _requests(additional, jnp.exp(rows(jnp.zeros_like(successes))))


def _requests(additional: Int[Array, " P"], score: Array) -> Requests:
    decision = jnp.where(additional > 0, int(Decision.COMMIT), int(Decision.NONE))
    return Requests(additional, decision, filled(additional, Reason.COMMIT), score)


def allocate_many(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: int,
    cap: int | None = None,
    mass_aware: bool = False,
) -> Requests:
    """The same for very many prompts, on the host: equal posteriors are looked at once, and many different Betas in one pass.

    Args:
        prior: see `allocate`; shared by all prompts.
        successes: [P] concrete.
        failures: [P] concrete.
        budget: see `allocate`.
        cap: see `allocate`.
        mass_aware: as `allocate_mass_aware`.

    Returns:
        As `allocate`.
    """
    s, f = np.asarray(successes, np.int64), np.asarray(failures, np.int64)
    pairs, inverse, multiplicity = _distinct(s, f)
    row_s, row_f = (jnp.asarray(column, successes.dtype) for column in pairs)
    offset = row_s + row_f if mass_aware else jnp.zeros_like(row_s)
    caps = room(row_s, row_f, budget, cap)
    total = min(budget, int((np.asarray(caps, np.int64) * multiplicity).sum()))
    marginals = hit_rows(prior, row_s, row_f, offset)
    score = jnp.exp(marginals(jnp.zeros_like(row_s)))
    one_beta = prior.a.shape == (1,) and prior.points.shape == (0,)
    if one_beta and (total <= _MOST_COLUMNS * s.size or multiplicity.size > _FEW_ROWS):
        a = float(prior.a[0]) + np.asarray(row_s, np.float64)
        b = float(prior.b[0]) + np.asarray(row_f + offset, np.float64)
        first = np.asarray(score, np.float64)
        above, reached = cut_beta_rows(
            Rows(first, a, b, np.asarray(caps, np.int64), multiplicity), total
        )
    else:
        counts, share = jnp.asarray(multiplicity, caps.dtype), jnp.asarray(total, caps.dtype)
        above, reached = (
            np.asarray(part, np.int64) for part in cut_rows(marginals, caps, counts, share)
        )
    additional = fill_rows(above[inverse], reached[inverse], total)
    return _requests(jnp.asarray(additional, successes.dtype), score[jnp.asarray(inverse)])


def allocate_each(
    prior: BetaMixture,
    successes: Int[Array, " P"],
    failures: Int[Array, " P"],
    budget: int,
    cap: int | None = None,
) -> Requests:
    """`allocate` for very many prompts with a Beta prior of each, on the host in one pass.

    Args:
        prior: [P, 1], no atoms.
        successes: [P] concrete.
        failures: [P] concrete.
        budget: see `allocate`.
        cap: see `allocate`.

    Returns:
        As `allocate`.
    """
    law = posterior(prior, successes, failures)
    a, b = law.a[:, 0], law.b[:, 0]
    additional = allocate_betas(a, b, budget, room(successes, failures, budget, cap))
    return _requests(additional.astype(successes.dtype), a / (a + b))


def allocate_betas(
    a: Array, b: Array, budget: int, caps: Int[Array, " P"] | None = None
) -> Int[Array, " P"]:
    """Every prompt with a Beta posterior of its own, on the host.

    Args:
        a: [P] above 0, concrete.
        b: [P] above 0, concrete.
        budget: R.
        caps: [P] most extra rollouts of each prompt; none by default.

    Returns:
        [P] extra rollouts that maximise the sum of hit utilities.
    """
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    most = np.full(left.size, budget) if caps is None else np.minimum(np.asarray(caps), budget)
    ones = np.ones(left.size, np.int64)
    rows = Rows(left / (left + right), left, right, most.astype(np.int64), ones)
    total = min(budget, int(rows.caps.sum()))
    above, reached = cut_beta_rows(rows, total)
    return jnp.asarray(fill_rows(above, reached, total))


def _distinct(
    successes: Int[np.ndarray, " P"], failures: Int[np.ndarray, " P"]
) -> tuple[
    tuple[Int[np.ndarray, " U"], Int[np.ndarray, " U"]],
    Int[np.ndarray, " P"],
    Int[np.ndarray, " U"],
]:
    """Pairs (s, f) that occur, which of them each prompt has, and how often each occurs."""
    width = int(failures.max(initial=0)) + 1
    codes = successes * width + failures
    most = int(codes.max(initial=0)) + 1
    if most <= 4 * codes.size + 1024:
        counts = np.bincount(codes, minlength=most)
        present = np.flatnonzero(counts)
        place = np.zeros(most, np.int64)
        place[present] = np.arange(present.size)
        inverse, multiplicity = place[codes], counts[present]
    else:
        present, inverse, multiplicity = np.unique(codes, return_inverse=True, return_counts=True)
    return (present // width, present % width), inverse, multiplicity


def two_phases(
    prior_of: Callable[[Belief, Int[Array, " B"]], BetaMixture],
    probe: int,
    batch_size: int,
    group_size: int,
    cap: int | None,
) -> Rule:
    """G0 rollouts of every open prompt, then B (n - G0) shared out by hit utility.

    Args:
        prior_of: (belief, places of prompts) -> the prior of all of them, or one of each.
        probe: G0.
        batch_size: B.
        group_size: n, the mean over the batch.
        cap: most rollouts of a group.

    Returns:
        The rule.

    Raises:
        InvalidInput: G0 outside 1..n, or a cap below n: the budget could not be spent.
    """
    if check_whole("probe", probe, 1) > check_whole("group size", group_size, 1):
        raise InvalidInput(f"probe {probe}: must be at most the group size {group_size}")
    if cap is not None and cap < group_size:
        raise InvalidInput(f"cap {cap}: must be at least the mean group size {group_size}")

    def rule(
        belief: Belief,
        successes: Int[Array, " P"],
        failures: Int[Array, " P"],
        opened: Bool[Array, " P"],
    ) -> Requests:
        size = successes + failures
        missing = jnp.where(opened, jnp.maximum(probe - size, 0), 0)
        probing = jnp.any(missing > 0)
        seen = jnp.sum(jnp.where(opened, size, 0))
        left = jnp.maximum(batch_size * group_size - seen, 0)
        at = jnp.flatnonzero(opened, size=batch_size, fill_value=opened.size)
        of_open = [part.at[at].get(mode="fill", fill_value=0) for part in (successes, failures)]
        limits = jnp.where(at < opened.size, room(of_open[0], of_open[1], left, cap), 0)
        rows = hit_rows(prior_of(belief, at), of_open[0], of_open[1], jnp.zeros_like(at))
        shares = jnp.zeros_like(successes).at[at].set(largest(rows, limits, left), mode="drop")
        waits = jnp.where(probing | (left > 0), int(Decision.CONTINUE), int(Decision.COMMIT))
        reason = jnp.where(probing, int(Reason.PILOT), int(Reason.COMMIT))
        return Requests(
            jnp.where(probing, missing, shares),
            jnp.broadcast_to(waits, size.shape),
            jnp.broadcast_to(reason, size.shape),
            scores(size),
        )

    return rule


def allocator(
    batch_size: int,
    group_size: int,
    probe: int = 4,
    cap: int | None = None,
    prior: BetaMixture | None = None,
    source: Source | None = None,
) -> Allocator:
    """HORA in a training loop: B n rollouts an update, as many as uniform allocation spends.

    Args:
        batch_size: B, prompts an update; every group is trained on.
        group_size: n, mean size of a group.
        probe: G0, rollouts of every prompt before the rest is shared out. The paper's value was not seen.
        cap: most rollouts of a group; none by default.
        prior: of the success rate; flat by default, fresh in every batch.
        source: which prompts; every prompt once an epoch by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: G0 outside 1..n, or a cap below n: the budget could not be spent.
    """
    law = beta(1.0, 1.0) if prior is None else prior

    def prior_of(belief: Belief, places: Int[Array, " B"]) -> BetaMixture:
        return law

    rule = two_phases(prior_of, probe, batch_size, group_size, cap)
    return assemble(epochs() if source is None else source, rule, once(batch_size), batch_size)


def learned_prior_allocator(
    batch_size: int,
    group_size: int,
    learner: PriorLearner,
    discount: float = 0.5,
    probe: int = 4,
    cap: int | None = None,
) -> Allocator:
    """HORA with a prior of each prompt, learned at every update from the rollouts of earlier ones.

    Args:
        batch_size: B, prompts an update; every group is trained on.
        group_size: n, mean size of a group.
        learner: (successes [P], failures [P]) remembered -> priors [P, J], such as `theory.allocation.learned_priors.population_prior`.
        discount: of the memory at each visit; 1 forgets nothing.
        probe: G0.
        cap: most rollouts of a group; none by default.

    Returns:
        The allocator.

    Raises:
        InvalidInput: as `allocator`; the discount is outside [0, 1]; by `init`, if the learner has no prior for each prompt.
    """
    rule = two_phases(prior_of_prompts, probe, batch_size, group_size, cap)
    source = learned_prior_epochs(learner, discount)
    return assemble(source, rule, once(batch_size), batch_size)

"""What s successes and f failures say of a prompt's next rollouts, in closed form under any mixture of Betas and atoms.

prior = beta(1.0, 1.0)
probability_effective(prior, 0, 0, 8)     # 7/9: eight fresh rollouts come out mixed
hit_utility(prior, 0, 4, 16)              # 16/21: after four failures, sixteen more hold a success

Unit: the prompt; a group is n rollouts of one prompt, and it is *effective*, or mixed, when it holds a success and a failure. Counts broadcast
against each other and against leading axes of the prior; the floating type is that of the prior. All rewards are binary and rollouts
independent given the rate p.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from theory.allocation.priors import (
    BetaMixture,
    Count,
    log_moment,
    log_moment_ratio,
    log_relative_likelihood,
    one_minus_moment,
    posterior,
)


def posterior_mean(prior: BetaMixture, successes: Count, failures: Count) -> Float[Array, "..."]:
    """E[p | s, f], the probability that the next rollout succeeds.

    Args:
        prior: of the rate.
        successes: s.
        failures: f.

    Returns:
        In [0, 1]; (a + s) / (a + b + s + f) under one Beta law.
    """
    return jnp.exp(log_moment_ratio(prior, successes, failures, 1, 0))


def hit_utility(
    prior: BetaMixture, successes: Count, failures: Count, extra: Count
) -> Float[Array, "..."]:
    """H(m): the probability that at least one of m further rollouts succeeds.

        1 - E[(1 - p)^m | s, f]  =  1 - B(a', b' + m) / B(a', b'),   a' = a + s, b' = b + f

    The mass-aware variant, that the whole group of s + f + m rollouts holds a success as seen from before them, is this with s = f = 0 and m
    the group's size.

    Source: HORA, arXiv 2605.07114, abstract; the closed form from an independent re-implementation, read at second hand.

    Args:
        prior: of the rate.
        successes: s.
        failures: f.
        extra: m, at least 0.

    Returns:
        In [0, 1].
    """
    return one_minus_moment(posterior(prior, successes, failures), 0, extra)


def hit_marginal(
    prior: BetaMixture, successes: Count, failures: Count, extra: Count
) -> Float[Array, "..."]:
    """M(l) = H(l + 1) - H(l): what one more rollout adds to the hit utility of l further ones.

        E[p (1 - p)^l | s, f]  =  B(a' + 1, b' + l) / B(a', b')

    Strictly decreasing in l unless p is known to be 0, or known to be 0 or 1 and l > 0; so the best use of R rollouts is the R largest
    marginals of all prompts, which is the greedy rule.

    Source: as `hit_utility`.

    Args:
        prior: of the rate.
        successes: s.
        failures: f.
        extra: l, at least 0.

    Returns:
        In [0, 1].
    """
    return jnp.exp(log_moment_ratio(prior, successes, failures, 1, extra))


def next_hit_marginal(
    marginal: Float[Array, "*#batch"],
    a: Float[Array, "*#batch"],
    b: Float[Array, "*#batch"],
    extra: Float[Array, "*#batch"],
) -> Float[Array, "*batch"]:
    """M(l + 1) from M(l) under one Beta law, without a special function.

        M(l + 1) = M(l) (b' + l) / (a' + b' + 1 + l),   M(0) = a' / (a' + b')

    Source: as `hit_utility`.

    Args:
        marginal: M(l).
        a: a' of the posterior.
        b: b' of the posterior.
        extra: l.

    Returns:
        M(l + 1).
    """
    return marginal * ((b + extra) / (a + b + 1 + extra))


def probability_effective(
    prior: BetaMixture, successes: Count, failures: Count, group_size: Count
) -> Float[Array, "..."]:
    """The probability that a group of n rollouts ends mixed, s and f of them seen.

        s > 0 and f > 0:  1
        f = 0:            1 - E[p^r | s, 0]            r = n - s - f to come
        s = 0:            1 - E[(1 - p)^r | 0, f]
        no rollout seen:  E[p] P(1, 0) + E[1 - p] P(0, 1)

    The last line, in place of 1 - E[p^n] - E[(1 - p)^n], keeps all digits of a small probability. Under the flat prior m equal outcomes
    give 1 - (m + 1) / (n + 1).

    Source: SARA, arXiv 2607.26253; the form is a reconstruction, checked by enumeration.

    Args:
        prior: of the rate.
        successes: s.
        failures: f.
        group_size: n. A group with no rollout left is mixed or not: 1 or 0.

    Returns:
        In [0, 1].
    """
    s, f, n = jnp.broadcast_arrays(*_counts(prior, successes, failures, group_size))
    none = s + f == 0
    # An empty group is looked at after its first rollout, from both sides, and that is weighed by the prior alone.
    first = none.astype(s.dtype)
    left = jnp.maximum(n - s - f - first, 0)
    law = posterior(
        _side_by_side(prior), jnp.stack([s + first, s], -1), jnp.stack([f, f + first], -1)
    )
    nothing = jnp.zeros_like(left)
    alike = (jnp.stack([left, nothing], -1), jnp.stack([nothing, left], -1))
    mixed = one_minus_moment(law, *alike)
    one, zero = jnp.array([1, 0]), jnp.array([0, 1])
    chances = jnp.broadcast_to(jnp.exp(log_moment(_side_by_side(prior), one, zero)), mixed.shape)
    # What cannot come has no posterior: NaN, which counts nothing.
    unseen = jnp.sum(jnp.where(chances > 0, chances * mixed, 0.0), axis=-1)
    one_sided = jnp.where(s > 0, mixed[..., 0], mixed[..., 1])
    return jnp.where(none, unseen, jnp.where((s > 0) & (f > 0), 1.0, one_sided))


def expected_final_variance(
    prior: BetaMixture, successes: Count, failures: Count, group_size: Count
) -> Float[Array, "..."]:
    """Expected reward variance of the finished group, E[X (n - X) | s, f] / n^2 with X its successes.

        [s f + s r E(1 - p) + f r E(p) + r (r - 1) E(p (1 - p))] / n^2,   r = n - s - f, moments given s and f

    Derived here. The variance is that of the group, with denominator n.

    Args:
        prior: of the rate.
        successes: s.
        failures: f.
        group_size: n, at least s + f and at least 1.

    Returns:
        In [0, 1/4].
    """
    law = posterior(prior, successes, failures)
    mean, rest = jnp.exp(log_moment(law, 1, 0)), jnp.exp(log_moment(law, 0, 1))
    both = jnp.exp(log_moment(law, 1, 1))
    s, f, n = _counts(prior, successes, failures, group_size)
    left = n - s - f
    # Shares of n one by one: n^2 is beyond what float32 counts exactly.
    share_s, share_f, share_left = s / n, f / n, left / n
    seen = share_s * share_f + share_s * share_left * rest + share_f * share_left * mean
    return seen + share_left * (jnp.maximum(left - 1, 0) / n) * both


def expected_bernoulli_variance(
    prior: BetaMixture, successes: Count, failures: Count
) -> Float[Array, "..."]:
    """E[p (1 - p) | s, f]: the variance of one rollout's reward, averaged over what is not known of p.

        a' b' / ((a' + b') (a' + b' + 1)) under one Beta law

    Args:
        prior: of the rate.
        successes: s.
        failures: f.

    Returns:
        In [0, 1/4].
    """
    return jnp.exp(log_moment_ratio(prior, successes, failures, 1, 1))


def expected_bernoulli_deviation(
    prior: BetaMixture, successes: Count, failures: Count
) -> Float[Array, "..."]:
    """E[sqrt(p (1 - p)) | s, f]: the push of std-normalised GRPO in the limit of large groups.

        B(a' + 1/2, b' + 1/2) / B(a', b') under one Beta law

    A group of finite size pushes less: `expected_group_deviation`.

    Args:
        prior: of the rate.
        successes: s.
        failures: f.

    Returns:
        In [0, 1/2].
    """
    return jnp.exp(log_moment_ratio(prior, successes, failures, 0.5, 0.5))


def expected_group_deviation(
    prior: BetaMixture, successes: Count, failures: Count, extra: int
) -> Float[Array, "..."]:
    """E[sqrt(rbar (1 - rbar)) | s, f] of the finished group: the push of std-normalised GRPO at finite size.

        sum_y P(Y = y | s, f) sqrt(X (n - X)) / n,   X = s + y, n = s + f + r

    Half the mean absolute advantage: with A = (r - rbar) / sqrt(rbar (1 - rbar)) the sum of |A| over a group is 2 n sqrt(rbar (1 - rbar)).

    Args:
        prior: of the rate.
        successes: [...] s.
        failures: [...] f.
        extra: r, rollouts still to come.

    Returns:
        [...] in [0, 1/2]; 0 for an empty group.
    """
    (come,) = _counts(prior, jnp.arange(extra + 1))
    s, f = (count[..., None] for count in _counts(prior, successes, failures))
    probabilities = jnp.exp(log_predictive(_side_by_side(prior), s, f, come, extra - come))
    batch = probabilities.shape
    s, f, come = (jnp.broadcast_to(count, batch) for count in (s, f, come))
    size = jnp.maximum(s + f + extra, 1)
    deviation = jnp.sqrt(((s + come) / size) * ((f + extra - come) / size))
    return jnp.sum(probabilities * deviation, axis=-1)


def log_predictive(
    prior: BetaMixture,
    successes: Count,
    failures: Count,
    more_successes: Count,
    more_failures: Count,
) -> Float[Array, "..."]:
    """Log probability that the next y + z rollouts hold y successes and z failures in any order: the Beta-Binomial law.

        log C(y + z, y) E[p^y (1 - p)^z | s, f]

    C(y + z, y) is (y + z + 1)^-1 over the flat prior's moment, so that both large logs cancel before they are formed.

    Args:
        prior: of the rate.
        successes: s seen.
        failures: f seen.
        more_successes: y.
        more_failures: z.

    Returns:
        Natural log; sums to 1 over y at fixed y + z.
    """
    law = posterior(prior, successes, failures)
    y, z = _counts(prior, more_successes, more_failures)
    one = jnp.ones(1, prior.a.dtype)
    flat = BetaMixture(jnp.zeros_like(one), one, one, one[:0], one[:0])
    batch = jnp.broadcast_shapes(law.a.shape[:-1], y.shape, z.shape)
    y, z = jnp.broadcast_to(y, batch), jnp.broadcast_to(z, batch)
    relative = log_relative_likelihood(law, y, z) - log_relative_likelihood(flat, y, z)
    return relative - jnp.log1p(y + z)


def discounted_count(count: Count, new: Count, discount: float) -> Array:
    """A count that forgets: rho times what it was, plus what is new.

        S <- rho S + s;   Beta(a + S, b + F) is then  a' <- rho a' + (1 - rho) a + s

    `posterior` takes such real counts, under any mixture. With a = b = 1 this is the update of MoPPS (as coded, thu-rllab/MoPPS), there at each
    visit of the prompt.

    Args:
        count: S, what is remembered.
        new: s, of this round.
        discount: rho in [0, 1]; 1 forgets nothing.

    Returns:
        The new S, of floating type.
    """
    old = jnp.asarray(count)
    kind = jnp.result_type(old, float) if not jnp.issubdtype(old.dtype, jnp.floating) else old.dtype
    return discount * old.astype(kind) + jnp.asarray(new).astype(kind)


def _counts(prior: BetaMixture, *counts: Count) -> list[Array]:
    """Counts of the prior's floating type."""
    return [jnp.asarray(count).astype(prior.a.dtype) for count in counts]


def _side_by_side(prior: BetaMixture) -> BetaMixture:
    """The prior with a new last batch axis, for several counts of one prompt."""
    return BetaMixture(*(field[..., None, :] for field in prior))

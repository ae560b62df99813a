"""Twists that are asked once a prefix and answer for all its children: the seam of learned twists.

    log psi(xv) for every token v,  from all that is known of the prefix x

`theory.smc.twisted` asks a `LogTwist` for every child, V questions a token, and a twist that reads the model's law after each child would
cost V model calls. A child twist is what a network with V outputs gives from the features of x (Zhao et al. 2024, arXiv 2404.17546). The
twist-induced proposal follows from it, and the resampler sees its soft-Bellman backup,

    q(v) proportional to p(v | x)^alpha psi(xv),        psi'(x) = sum_v p(v | x)^alpha psi(xv),

which is known where x stands: no question is asked twice. With psi = zeta, psi' = zeta too, and Z_hat has no variance; with psi = 1
this is the fully adapted filter. Z_hat is unbiased whatever psi is.

On rows that are over nothing is asked: psi = 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Key

from theory.generation import Generation, goes_on, is_eos
from theory.ledger import Ledger, charge
from theory.protocols import Resampler, SequenceModel
from theory.smc.population import Population
from theory.smc.step import LogScore, StepInfo, run_steps
from theory.smc.twisted import LogTwist, children_log_twist, propose_by_children


class Prefixes(NamedTuple):
    """What is known where rows stand.

    Attributes:
        tokens: [B, T] generated so far, right-padded; the prompt is in the law only.
        lengths: [B] generated tokens.
        log_probs: [B, V] the model's law of the next token.
    """

    tokens: Int32[Array, "B T"]
    lengths: Int32[Array, " B"]
    log_probs: Float32[Array, "B V"]


# Log psi of every prefix with every token appended, natural log, finite; what it says of children that are over is not read.
ChildTwist = Callable[[Prefixes], Float32[Array, "B V"]]


def child_twisted_smc(
    key: Key[Array, ""],
    model: SequenceModel,
    child_twist: ChildTwist,
    alpha: float | Float32[Array, ""],
    population: Population,
    resampler: Resampler,
    resample_after: tuple[int, ...],
) -> tuple[Population, StepInfo]:
    """Twisted SMC with the induced proposal and the backed-up twist.

    Args:
        key: of the run; role keys are taken from it.
        model: of the tokens.
        child_twist: log psi of children.
        alpha: target exponent, above 0.
        population: M populations of N particles, as `start_populations` gives them.
        resampler: called at the steps of the schedule.
        resample_after: numbers of generated tokens, ascending in 1..horizon-1; () is importance sampling from the induced law.

    Returns:
        The population weighted for p^alpha, with exp(`log_evidence`) unbiased for Z at every N (and equal to Z for psi = zeta), and
        what each resampling saw and did.

    Raises:
        InvalidInput: a schedule that is none.
    """

    def children(now: Generation) -> Float32[Array, "B V"]:
        return children_of(child_twist, model, prefixes_of(now))

    return run_steps(
        key,
        model,
        alpha,
        population,
        resampler,
        resample_after,
        propose_by_children(model, alpha, children, 1),
        backed_up_score(child_twist, model, alpha),
    )


def log_backup(
    log_probs: Float[Array, "*batch V"],
    child_log_twist: Float[Array, "*batch V"],
    alpha: float | Float[Array, ""],
) -> Float[Array, "*batch"]:
    """The soft-Bellman backup, of which log zeta is the fixed point.

        log sum_v p(v | x)^alpha psi(xv)

    Args:
        log_probs: [..., V] the model's law after x.
        child_log_twist: [..., V] log psi, 0 for children that are over.
        alpha: exponent, above 0.

    Returns:
        [...] natural log.
    """
    impossible = jnp.isneginf(log_probs)
    powers = alpha * jnp.where(impossible, 0.0, log_probs)
    return jax.nn.logsumexp(jnp.where(impossible, -jnp.inf, powers + child_log_twist), axis=-1)


def backed_up_score(
    child_twist: ChildTwist, model: SequenceModel, alpha: float | Float32[Array, ""]
) -> LogScore:
    """The backup as a score of rows: log psi'(x) where a row goes on, 0 where it is over.

    Args:
        child_twist: log psi of children.
        model: of the tokens.
        alpha: exponent, above 0.

    Returns:
        What `run_steps` asks.
    """

    def score(
        keys: Key[Array, " B"], generation: Generation, stage: Int32[Array, ""]
    ) -> tuple[Float32[Array, " B"], Ledger]:
        asked = goes_on(generation.trajectories, model.horizon)
        values = children_of(child_twist, model, prefixes_of(generation))
        ledger = charge(generation.ledger, utility_calls=asked.sum(dtype=jnp.int32))
        backup = log_backup(generation.log_probs, values, alpha)
        return jnp.where(asked, backup, 0.0), ledger

    return score


def prefixes_of(generation: Generation) -> Prefixes:
    """Where the rows of a generation stand.

    Args:
        generation: B rows.

    Returns:
        The same rows.
    """
    rows = generation.trajectories
    return Prefixes(rows.tokens, rows.lengths, generation.log_probs)


def children_of(
    child_twist: ChildTwist, model: SequenceModel, prefixes: Prefixes
) -> Float32[Array, "B V"]:
    """Log psi of children, 0 for those that are over.

    Args:
        child_twist: log psi of children.
        model: of the tokens.
        prefixes: B of them.

    Returns:
        [B, V].
    """
    ends = is_eos(model, jnp.arange(model.vocab_size, dtype=jnp.int32))
    is_last = prefixes.lengths + 1 >= model.horizon
    return jnp.where(ends[None, :] | is_last[:, None], 0.0, child_twist(prefixes))


def no_twist(prefixes: Prefixes) -> Float32[Array, "B V"]:
    """Psi = 1: the induced proposal is token temperature 1/alpha and its backup the normaliser z.

    Args:
        prefixes: B of them.

    Returns:
        [B, V] zeros.
    """
    return jnp.zeros_like(prefixes.log_probs)


def asking_each_child(log_twist: LogTwist, model: SequenceModel) -> ChildTwist:
    """A twist of prefixes as a child twist, by V questions.

    Args:
        log_twist: log psi of prefixes.
        model: of the tokens.

    Returns:
        The same psi.
    """
    return lambda prefixes: children_log_twist(log_twist, model, prefixes.tokens, prefixes.lengths)

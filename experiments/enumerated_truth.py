"""The power law of a transformer on a short task, by enumeration with a bound on what it leaves out.

The tree of prefixes is expanded level by level, for all prompts side by side. A prefix whose probability is below a threshold, under the base
law and under token temperature 1/alpha alike, is not followed: all that could begin with it is missing. At alpha >= 1

    sum over completions y of u of p(y)^alpha <= p(u)^alpha,

since a sum of powers is at most the power of the sum; so what is missing of Z is known from above. At alpha < 1 there is no such bound.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Float64, Int, Int32, PyTree

from experiments.progress import Progress
from models.tasks.task import Sequences
from theory.errors import InvalidInput
from theory.protocols import SequenceModel

MAX_PREFIXES = 1 << 17
# Prompts that are expanded side by side.
GROUP = 16


class Enumeration(NamedTuple):
    """M completions of P prompts, and what is missing.

    Attributes:
        prompt_of: [M] prompt of each completion.
        tokens: [M, T] 0 past a completion's length.
        lengths: [M].
        log_p: [M] base log probability.
        log_q: [M] log probability under token temperature 1/alpha.
        alpha: exponent.
        missing_p: [P] base probability of what was not followed.
        missing_q: [P] the same under temperature.
        log_missing_power: [P] log of an upper bound on its sum of p^alpha; -inf where nothing is missing.
    """

    prompt_of: Int[np.ndarray, " M"]
    tokens: Int32[np.ndarray, "M T"]
    lengths: Int[np.ndarray, " M"]
    log_p: Float64[np.ndarray, " M"]
    log_q: Float64[np.ndarray, " M"]
    alpha: float
    missing_p: Float64[np.ndarray, " P"]
    missing_q: Float64[np.ndarray, " P"]
    log_missing_power: Float64[np.ndarray, " P"]


class Bounds(NamedTuple):
    """An expectation of something between 0 and 1, for each prompt.

    Attributes:
        low: [P].
        high: [P].
    """

    low: Float64[np.ndarray, " P"]
    high: Float64[np.ndarray, " P"]


class _Frontier(NamedTuple):
    """Prefixes that are followed."""

    prompt_of: Int[np.ndarray, " n"]
    tokens: Int32[np.ndarray, "n T"]
    log_p: Float64[np.ndarray, " n"]
    log_q: Float64[np.ndarray, " n"]


def enumerate_completions(
    model: SequenceModel[Any],
    prompts: Sequences,
    alpha: float,
    threshold: float,
    progress: Progress,
) -> Enumeration:
    """Follow every prefix that is likely enough.

    Args:
        model: of the tokens.
        prompts: of P rows.
        alpha: exponent, at least 1.
        threshold: probability below which a prefix is not followed.
        progress: told of the groups of prompts.

    Returns:
        The completions.

    Raises:
        InvalidInput: alpha < 1, where nothing bounds the missing part, or too many prefixes.
    """
    if alpha < 1:
        raise InvalidInput(
            f"alpha {alpha:g}: what enumeration misses is bounded at alpha >= 1 only"
        )
    starts = range(0, prompts.tokens.shape[0], GROUP)
    parts = [
        _enumerate_group(
            model,
            Sequences(
                prompts.tokens[start : start + GROUP], prompts.lengths[start : start + GROUP]
            ),
            alpha,
            threshold,
        )
        for start in progress(starts, "enumerating completions")
    ]
    moved = [
        part._replace(prompt_of=part.prompt_of + start)
        for part, start in zip(parts, starts, strict=True)
    ]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in moved])

    names = [name for name in Enumeration._fields if name != "alpha"]
    return Enumeration(alpha=alpha, **{name: joined(name) for name in names})


def _enumerate_group(
    model: SequenceModel[Any], prompts: Sequences, alpha: float, threshold: float
) -> Enumeration:
    """The same for a few prompts, whose prefixes are on the device together."""
    num_prompts = prompts.tokens.shape[0]
    state, laws = _read(model, prompts)
    zeros = np.zeros(num_prompts)
    now = _Frontier(
        np.arange(num_prompts), np.zeros((num_prompts, model.horizon), np.int32), zeros, zeros
    )
    found: list[tuple[np.ndarray, ...]] = []
    missing_p, missing_q = np.zeros(num_prompts), np.zeros(num_prompts)
    log_missing_power = np.full(num_prompts, -np.inf)
    for depth in range(model.horizon):
        log_laws, log_z = _host_laws(laws, alpha, len(now.log_p))
        children_p = now.log_p[:, None] + log_laws
        children_q = now.log_q[:, None] + alpha * log_laws - log_z[:, None]
        possible = np.isfinite(children_p)
        ends = np.isin(np.arange(model.vocab_size), model.eos)[None] | (depth + 1 == model.horizon)
        likely = np.maximum(children_p, children_q) >= np.log(threshold)
        done = possible & (ends & np.ones_like(possible))
        dropped = possible & ~done & ~likely
        parents, tokens = np.nonzero(done)
        rows = now.tokens[parents]
        rows[:, depth] = tokens
        found.append(
            (
                now.prompt_of[parents],
                rows,
                np.full(len(parents), depth + 1),
                children_p[done],
                children_q[done],
            )
        )
        lost, _ = np.nonzero(dropped)
        prompt_of_lost = now.prompt_of[lost]
        np.add.at(missing_p, prompt_of_lost, np.exp(children_p[dropped]))
        np.add.at(missing_q, prompt_of_lost, np.exp(children_q[dropped]))
        np.logaddexp.at(log_missing_power, prompt_of_lost, alpha * children_p[dropped])
        parents, tokens = np.nonzero(possible & ~done & likely)
        if not len(parents):
            break
        if len(parents) > MAX_PREFIXES:
            raise InvalidInput(
                f"{len(parents)} prefixes of {depth + 1} tokens of {num_prompts} prompts are likelier than {threshold:g}, "
                f"at most {MAX_PREFIXES}; raise the threshold"
            )
        rows = now.tokens[parents]
        rows[:, depth] = tokens
        kept = possible & ~done & likely
        now = _Frontier(now.prompt_of[parents], rows, children_p[kept], children_q[kept])
        size = 1 << max(6, (len(parents) - 1).bit_length())  # few shapes, few compilations
        padded = (np.resize(parents, size), np.resize(tokens, size))
        state, laws = _follow(model, state, *(jnp.asarray(part, jnp.int32) for part in padded))
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    prompt_of, tokens, lengths, log_p, log_q = columns
    missing = (missing_p, missing_q, log_missing_power)
    return Enumeration(prompt_of, tokens, lengths, log_p, log_q, alpha, *missing)


def power_weights(found: Enumeration) -> Float64[np.ndarray, " M"]:
    """p(y)^alpha of each completion, over the sum of its prompt's: the power law but for what is missing.

    Args:
        found: the completions.

    Returns:
        [M]; they sum to 1 over each prompt.
    """
    weights = np.exp(found.alpha * (found.log_p - _highest(found)[found.prompt_of]))
    return weights / _total(found, weights)[found.prompt_of]


def base_bounds(found: Enumeration, values: Float64[np.ndarray, " M"]) -> Bounds:
    """Expectation under the base law.

    Args:
        found: the completions.
        values: [M] in 0..1.

    Returns:
        Bounds: what is missing is 0 or 1.
    """
    known = _total(found, np.exp(found.log_p) * values)
    return Bounds(known, known + found.missing_p)


def temperature_bounds(found: Enumeration, values: Float64[np.ndarray, " M"]) -> Bounds:
    """Expectation under token temperature 1/alpha.

    Args:
        found: the completions.
        values: [M] in 0..1.

    Returns:
        Bounds: what is missing is 0 or 1.
    """
    known = _total(found, np.exp(found.log_q) * values)
    return Bounds(known, known + found.missing_q)


def power_bounds(found: Enumeration, values: Float64[np.ndarray, " M"]) -> Bounds:
    """Expectation under the power law p(y)^alpha / Z.

    Args:
        found: the completions.
        values: [M] in 0..1.

    Returns:
        Bounds: with S the sum of p^alpha over the completions, F that of p^alpha times the values and M the bound on what is missing,

            F / (S + M)  <=  E  <=  (F + M) / (S + M).
    """
    # In units of the largest, since large powers of small numbers are no doubles.
    unit = np.maximum(found.alpha * _highest(found), found.log_missing_power)
    powers = np.exp(found.alpha * found.log_p - unit[found.prompt_of])
    missing = np.exp(found.log_missing_power - unit)
    total, known = _total(found, powers), _total(found, powers * values)
    return Bounds(known / (total + missing), (known + missing) / (total + missing))


def kl_power_temperature(found: Enumeration) -> Float64[np.ndarray, " P"]:
    """KL(power || temperature 1/alpha) of the two laws given that a completion is one of those enumerated.

    Args:
        found: the completions.

    Returns:
        [P] nats.
    """
    weights = power_weights(found)
    log_weights = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
    known_q = np.log(_total(found, np.exp(found.log_q)))[found.prompt_of]
    return mean_under(found, weights, log_weights - (found.log_q - known_q))


def mean_under(
    found: Enumeration, weights: Float64[np.ndarray, " M"], values: Float64[np.ndarray, " M"]
) -> Float64[np.ndarray, " P"]:
    """Expectation over the completions alone, such as of a length or of log p, which have no bound.

    Args:
        found: the completions.
        weights: [M] unnormalised.
        values: [M].

    Returns:
        [P].
    """
    return _total(found, weights * values) / _total(found, weights)


def _highest(found: Enumeration) -> Float64[np.ndarray, " P"]:
    """Largest log p of each prompt's completions."""
    highest = np.full(len(found.missing_p), -np.inf)
    np.maximum.at(highest, found.prompt_of, found.log_p)
    return highest


def _total(found: Enumeration, values: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " P"]:
    return np.bincount(found.prompt_of, values, minlength=len(found.missing_p))


def _host_laws(
    laws: Float32[Array, "m V"], alpha: float, num: int
) -> tuple[Float64[np.ndarray, "n V"], Float64[np.ndarray, " n"]]:
    """Normalised in float64, so that masses add up to 1 whatever the depth."""
    log_laws = np.asarray(laws, np.float64)[:num]
    log_laws = log_laws - np.log(np.exp(log_laws).sum(axis=1, keepdims=True))
    with np.errstate(divide="ignore"):
        highest = log_laws.max(axis=1, keepdims=True)
        log_z = alpha * highest[:, 0] + np.log(np.exp(alpha * (log_laws - highest)).sum(axis=1))
    return log_laws, log_z


@jax.jit
def _read(model: SequenceModel[Any], prompts: Sequences) -> tuple[PyTree, Float32[Array, "P V"]]:
    return model.init(prompts.tokens, prompts.lengths)


@jax.jit
def _follow(
    model: SequenceModel[Any], state: PyTree, parents: Int[Array, " n"], tokens: Int[Array, " n"]
) -> tuple[PyTree, Float32[Array, "n V"]]:
    everyone: Bool[Array, " n"] = jnp.ones(parents.shape, bool)
    return model.step(model.take(state, parents), tokens, everyone)

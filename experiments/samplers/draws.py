"""Independent draws: the base model, token rules, importance sampling and rejection."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Key

from experiments.command_line import unknown
from experiments.samplers.rows import PromptBatch, Rows, drawn_rows, proposed_rows
from experiments.samplers.settings import Settings
from theory.decoding import DEFAULT_ORDER, LIBRARIES, TokenRule, arrange, default_rules, jointly
from theory.decoding.min_p import min_p
from theory.decoding.temperature import temperature
from theory.decoding.top_k import top_k
from theory.decoding.top_p import top_p
from theory.errors import InvalidInput
from theory.generation import Generation, generate, start
from theory.importance import check_alive, trajectory_log_weights
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.ledger import charge
from theory.protocols import SequenceModel
from theory.rejection import RejectionState, check_complete, rejection_sample
from theory.smc.proposals import temperature_proposal


def ancestral(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Exact draws from the base model; see `Sampler`."""
    return drawn_rows(_draw(key, model, prompts, ids, (), jnp.float32(1.0)), 1.0)


def token_rules(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Exact draws from temperature and truncation rules, token by token; see `Sampler`. Log z is that of alpha = 1/T."""
    heat = settings.temperature
    alpha = 1.0 / heat if heat > 0 else 1.0
    drawn = _draw(key, model, prompts, ids, rules_of(settings), jnp.float32(alpha))
    rows = drawn_rows(drawn, alpha)
    if heat == 0:  # alpha is infinite, and log z with it
        rows = rows._replace(log_z_sum=np.full(rows.lengths.shape, np.nan))
    return rows


def importance(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Weighted draws for p(y)^alpha from token temperature 1/proposal_alpha; see `Sampler`.

    The mean of exp(log_weight) is unbiased for Z at every number of draws.
    """
    rules, alpha = temperature_proposal(settings.proposal_alpha), jnp.float32(settings.alpha)
    drawn = _draw(key, model, prompts, ids, rules, alpha)
    log_weights = trajectory_log_weights(drawn.trajectories, settings.alpha)
    check_alive(log_weights)
    weights = np.asarray(log_weights, np.float64)
    return drawn_rows(drawn, settings.alpha)._replace(log_weight=weights)


def rejection(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> Rows:
    """Exact draws from p(y)^alpha / Z by rejection; see `Sampler`. Refuses rows that no proposal was accepted for."""
    state = _reject(key, model, prompts, ids, settings)
    check_complete(state)
    return proposed_rows(state.generation, settings.alpha)


def rules_of(settings: Settings) -> tuple[TokenRule, ...]:
    """The pipeline of the token rules that are set, in the order that is asked for.

    Args:
        settings: temperature, top-k, top-p, min-p and order.

    Returns:
        The rules; none where nothing is changed.

    Raises:
        InvalidInput: a parameter outside its domain, an unknown order, or one that has no place for a rule.
    """
    rules: list[TokenRule] = []
    if settings.temperature != 1.0:
        rules.append(temperature(settings.temperature))
    if settings.top_k is not None:
        rules.append(top_k(settings.top_k))
    if settings.top_p is not None:
        rules.append(top_p(settings.top_p))
    if settings.min_p is not None:
        rules.append(min_p(settings.min_p))
    if settings.order == "default":
        return default_rules(*rules)
    if settings.order in LIBRARIES:
        library = LIBRARIES[settings.order]
        arranged = arrange(tuple(rules), library.order)
        return jointly(arranged) if library.filters == "joint" else arranged
    names = tuple(name.strip() for name in settings.order.split(","))
    for name in names:
        if name not in DEFAULT_ORDER:
            raise unknown("order", settings.order, ["default", *LIBRARIES, *DEFAULT_ORDER])
    if len(set(names)) < len(names):
        raise InvalidInput(f"--order {settings.order}: names a rule twice, name it once")
    return arrange(tuple(rules), names)


@jax.jit
def _draw(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    rules: tuple[TokenRule, ...],
    alpha: Float32[Array, ""],
) -> Generation:
    keys = fold_rows(row_keys(role_key(key, Role.TOKEN), ids), 0)  # iteration 0
    read = start(model, prompts.tokens, prompts.lengths)
    read = read._replace(ledger=charge(read.ledger, rollouts_commit=ids.shape[0]))
    limits = jnp.full(ids.shape, model.horizon, jnp.int32)
    return generate(keys, model, rules, alpha, read, limits)


@jax.jit
def _reject(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: PromptBatch,
    ids: Int[Array, " B"],
    settings: Settings,
) -> RejectionState:
    return rejection_sample(
        key,
        model,
        temperature_proposal(settings.proposal_alpha),
        settings.alpha,
        settings.log_bound,
        prompts.tokens,
        prompts.lengths,
        ids,
        settings.max_rounds,
    )

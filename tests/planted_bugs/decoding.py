"""Wrong twins of the token rules, of drawing tokens and of sampling without replacement."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from theory.decoding import TokenDraw, TokenLaw, TokenRule, draw_tokens, token_law
from theory.decoding.block_race import BLOCK, race_by_blocks
from theory.decoding.noise import gumbels


def _mass_before(logits: Float[Array, "B V"]) -> tuple[Int[Array, "B V"], Float[Array, "B V"]]:
    """Tokens in descending order and the probability of those before each."""
    order = jnp.argsort(-logits, axis=-1, stable=True)
    probs = jnp.take_along_axis(jax.nn.softmax(logits, axis=-1), order, axis=-1)
    return order, jnp.pad(jnp.cumsum(probs, axis=-1)[:, :-1], ((0, 0), (1, 0)))


def _keep_ranks(logits: Float[Array, "B V"], order: Array, kept: Array) -> Float[Array, "B V"]:
    rows = jnp.arange(logits.shape[0])[:, None]
    return jnp.where(jnp.zeros(logits.shape, bool).at[rows, order].set(kept), logits, -jnp.inf)


def top_p_drops_the_crossing_token(logits: Float[Array, "B V"], mass: float) -> Array:
    """Keeps tokens while their own cumulative mass is at most p."""
    order, before = _mass_before(logits)
    own = jnp.take_along_axis(jax.nn.softmax(logits, axis=-1), order, axis=-1)
    first = jnp.arange(logits.shape[-1])[None] == 0
    return _keep_ranks(logits, order, first | (before + own <= mass + 1e-6))


def top_p_keeps_one_more_at_equality(logits: Float[Array, "B V"], mass: float) -> Array:
    """Keeps a token unless the mass before it exceeds p."""
    order, before = _mass_before(logits)
    return _keep_ranks(logits, order, before <= mass + 1e-6)


def top_k_keeps_ties(logits: Float[Array, "B V"], num_tokens: float) -> Array:
    """Compares with the k-th value, which several tokens may have."""
    k = min(int(num_tokens), logits.shape[-1])
    return jnp.where(logits >= jnp.sort(logits, axis=-1)[:, -k][:, None], logits, -jnp.inf)


def min_p_writes_zero(logits: Float[Array, "B V"], fraction: float) -> Array:
    """Sets cut-off logits to 0, which makes unlikely tokens likely."""
    threshold = jnp.max(logits, axis=-1, keepdims=True) + jnp.log(fraction)
    return jnp.where(logits >= threshold, logits, 0.0)


def temperature_divides_first(logits: Float[Array, "B V"], temperature: float) -> Array:
    """Divides without subtracting the maximum and without a case for 0."""
    return logits / temperature


def counts_with_pads(
    tokens: Int[Array, "B T"], lengths: Int[Array, " B"], vocab_size: int
) -> Int[Array, "B V"]:
    """Counts whatever stands in the array."""
    return jnp.sum(tokens[..., None] == jnp.arange(vocab_size)[None, None], axis=1)


def mask_with_wrapped_index(tokens: tuple[int, ...], vocab_size: int) -> Array:
    """An eos of -1, meaning none, blocks the last token of the vocabulary."""
    return jnp.zeros(vocab_size, bool).at[jnp.array(tokens)].set(True)


def softmax_of_nothing(logits: Float[Array, "B V"]) -> Array:
    """Log softmax of a row without a possible token."""
    return jax.nn.log_softmax(logits, axis=-1)


def exponential_from_23_bits(high: Array, low: Array) -> Array:
    """The usual float32 uniform: its smallest positive value is 2^-23, so its noise never exceeds 15.9."""
    uniform = jnp.maximum((high >> 9).astype(jnp.float32) * 2.0**-23, jnp.finfo(jnp.float32).tiny)
    return -jnp.log(jnp.where(high >> 9 == 0, 1.0 - 2.0**-23, 1.0 - uniform))


def reports_the_law_before_the_rules(
    keys: Key[Array, " B"], rules: tuple[TokenRule, ...], log_probs: Array, counts: Array
) -> TokenDraw:
    """Draws from the truncated law and records log q of the untruncated one."""
    law = token_law(rules, log_probs, counts)
    tokens = draw_tokens(keys, law)
    log_p = jnp.take_along_axis(log_probs, tokens[:, None], axis=-1)[:, 0]
    return TokenDraw(tokens, log_p, log_p, law.failed)


def draws_from_the_law_before_the_rules(
    keys: Key[Array, " B"], rules: tuple[TokenRule, ...], log_probs: Array, counts: Array
) -> TokenDraw:
    """Computes the truncated law and draws from the untruncated one."""
    law = token_law(rules, log_probs, counts)
    tokens = draw_tokens(keys, token_law((), log_probs, counts))
    log_q = jnp.take_along_axis(law.log_probs, tokens[:, None], axis=-1)[:, 0]
    log_p = jnp.take_along_axis(log_probs, tokens[:, None], axis=-1)[:, 0]
    return TokenDraw(tokens, log_q, log_p, law.failed)


def one_key_for_the_batch(
    keys: Key[Array, " B"], rules: tuple[TokenRule, ...], log_probs: Array, counts: Array
) -> TokenDraw:
    """All rows draw from the first row's key, so a row's token moves with its place in the batch."""
    law = token_law(rules, log_probs, counts)
    tokens = jax.random.categorical(keys[0], law.log_probs, axis=-1).astype(jnp.int32)
    log_q = jnp.take_along_axis(law.log_probs, tokens[:, None], axis=-1)[:, 0]
    return TokenDraw(tokens, log_q, log_q, law.failed)


def gumbels_not_given_max(
    perturbed: Float[Array, "*batch V"], maximum: Float[Array, "*batch"]
) -> Float[Array, "*batch V"]:
    """Children get fresh noise, as if their maximum were not fixed by the parent."""
    return jnp.where(maximum[..., None] > -jnp.inf, perturbed, -jnp.inf)


def weights_without_threshold(log_p: Array, scores: Array, log_q: Array, kappa: Array) -> Array:
    """Weighs distinct draws as if they were independent draws of q: p / (N q)."""
    return log_p - log_q - jnp.log(log_q.shape[-1])


def weights_by_own_threshold(log_p: Array, scores: Array, log_q: Array, kappa: Array) -> Array:
    """Takes the k-th largest score, which was drawn, for the (k + 1)-th, which was not."""
    return log_p - jnp.log(-jnp.expm1(-jnp.exp(log_q - scores[:, -1:])))


def top_k_keeps_one_more(logits: Float[Array, "B V"], num_tokens: float) -> Array:
    """The k-th place counted from 0: one token too many."""
    order, _ = _mass_before(logits)
    return _keep_ranks(logits, order, jnp.arange(logits.shape[-1])[None] <= num_tokens)


def min_p_of_one(logits: Float[Array, "B V"], fraction: float) -> Array:
    """The threshold is the fraction itself, not the fraction of the largest probability."""
    probs = jax.nn.softmax(logits, axis=-1)
    return jnp.where(probs >= fraction, logits, -jnp.inf)


def greedy_takes_the_last_of_ties(logits: Float[Array, "B V"], temperature: float) -> Array:
    """At temperature 0 the highest index wins; which one it is depends on the backend."""
    if temperature > 0:
        return logits / temperature
    last = logits.shape[-1] - 1 - jnp.argmax(logits[:, ::-1], axis=-1)
    return jnp.where(jnp.arange(logits.shape[-1])[None] == last[:, None], 0.0, -jnp.inf)


def greedy_shares_ties(logits: Float[Array, "B V"], temperature: float) -> Array:
    """At temperature 0 all maxima stay: two runs of one prompt may differ."""
    if temperature > 0:
        return logits / temperature
    return jnp.where(logits == jnp.max(logits, axis=-1, keepdims=True), 0.0, -jnp.inf)


def top_p_before_temperature(
    temperature: TokenRule, top_p: TokenRule
) -> tuple[TokenRule, TokenRule]:
    """The mass that top-p speaks of is not that of the law that is drawn from."""
    return top_p, temperature


def filters_one_after_the_other(top_k: TokenRule, top_p: TokenRule) -> tuple[TokenRule, TokenRule]:
    """Read jointly, both look at one law; here top-p sees what top-k has renormalised."""
    return top_k, top_p


def repetition_divides_negative_logits(
    logits: Float[Array, "B V"], counts: Int[Array, "B V"], penalty: float
) -> Array:
    """Divides by the penalty whatever the sign: a log probability comes nearer to 0, and the token is encouraged."""
    return jnp.where(counts > 0, logits / penalty, logits)


def presence_charges_every_time(
    logits: Float[Array, "B V"], counts: Int[Array, "B V"], penalty: float
) -> Array:
    """The presence penalty grows with the number of times, which is the frequency penalty."""
    return logits - penalty * counts.astype(logits.dtype)


def one_noise_for_both_races(keys: jax.Array, law: TokenLaw) -> jax.Array:
    """The race of blocks and the race inside one read the same numbers."""
    num_blocks = -(-law.log_probs.shape[1] // BLOCK)
    return race_by_blocks(law, gumbels(keys, num_blocks), gumbels(keys, BLOCK))

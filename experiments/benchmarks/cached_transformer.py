"""A small transformer with a key-value cache and random weights: the speed of a language model without its knowledge.

Benchmarks of samplers need a model whose state is large and whose rows are dear to move. Rows have lengths of their own; going back is a
shorter length, since what stands in the cache past it is never read. Gathering and choosing rows copy only rows that change and only
the part of their cache that is filled, in place wherever no row is both read and written.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32, Key, PyTree

from models.pytree import register_pytree
from models.tabular.rows import extend_by_steps
from theory.protocols import Reduce

Cache = tuple[Float32[Array, "B H S D"], ...]
# Positions that are copied at a time: few enough that little is copied past a row's end.
CHUNK = 16


class Block(NamedTuple):
    """Weights of one layer, W the width: attention of H heads of D, and a perceptron of 4 W."""

    query_key_value: Float32[Array, "W W3"]
    out: Float32[Array, "W W"]
    up: Float32[Array, "W W4"]
    down: Float32[Array, "W4 W"]


class CachedState(NamedTuple):
    """Where each row stands; S = 1 + P + horizon positions, the first for the start token.

    Attributes:
        cache: keys and values of every layer, [B, H, S, D] each; entries past `filled` are stale.
        filled: [B] positions that count.
        num_read: [B] of them, the start token and the prompt.
        prompt_last: [B] the last token of those.
        last: [B] the last token.
    """

    cache: Cache
    filled: Int32[Array, " B"]
    num_read: Int32[Array, " B"]
    prompt_last: Int32[Array, " B"]
    last: Int32[Array, " B"]


@register_pytree(static=("eos", "horizon", "num_heads"))
@dataclasses.dataclass(frozen=True, eq=False)
class CachedTransformer:
    """`SequenceModel` of a pre-norm transformer in float32.

    Attributes:
        embedding: [V + 1, W] of the tokens and, last, of the start token.
        places: [S, W] of the positions.
        blocks: the layers.
        unembedding: [W, V].
        eos_logit: [] log odds of eos against all other tokens, the same everywhere: what sets the lengths.
        eos: no token or one.
        horizon: most generated tokens.
        num_heads: H.
    """

    embedding: Float32[Array, "V1 W"]
    places: Float32[Array, "S W"]
    blocks: tuple[Block, ...]
    unembedding: Float32[Array, "W V"]
    eos_logit: Float32[Array, ""]
    eos: tuple[int, ...]
    horizon: int
    num_heads: int

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.unembedding.shape[1]

    def init(
        self, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
    ) -> tuple[CachedState, Float32[Array, "B V"]]:
        """Read the start token and the prompts; see `SequenceModel.init`."""
        num_rows, width = prompts.shape
        depth = self.embedding.shape[1] // self.num_heads
        num_places = 1 + width + self.horizon
        layer = jnp.zeros((num_rows, self.num_heads, num_places, depth), jnp.float32)
        begin = jnp.full(num_rows, self.vocab_size, jnp.int32)
        none = jnp.zeros(num_rows, jnp.int32)
        empty = CachedState((layer,) * (2 * len(self.blocks)), none, none, begin, begin)
        state, law = self.step(empty, begin, none == 0)
        state, _, after = self.extend(state, prompts, prompt_lengths, lambda law, token: token)
        state = state._replace(num_read=state.filled, prompt_last=state.last)
        return state, jnp.where(prompt_lengths[:, None] > 0, after, law)

    def step(
        self, state: CachedState, tokens: Int[Array, " B"], active: Bool[Array, " B"]
    ) -> tuple[CachedState, Float32[Array, "B V"]]:
        """Write each row's keys and values at its own place; see `SequenceModel.step`."""
        tokens = jnp.where(active, tokens, 0)
        # An inactive row writes where nothing is read; a full one writes nowhere.
        law, cache = self._read(state.cache, tokens, state.filled, write=True)
        # No log probability is above 0. With this, who knows `filled` has waited for the law: a compiler that cannot tell whether a row
        # is overwritten (`select`) before the last layer has read it copies the whole cache to be safe.
        filled = state.filled + (active & (law[:, 0] <= 0)).astype(jnp.int32)
        last = jnp.where(active, tokens, state.last)
        return state._replace(cache=cache, filled=filled, last=last), law

    def extend(
        self,
        state: CachedState,
        tokens: Int[Array, "B S"],
        lengths: Int[Array, " B"],
        reduce: Reduce,
    ) -> tuple[CachedState, PyTree, Float32[Array, "B V"]]:
        """S steps in one scan; see `SequenceModel.extend`."""
        law, _ = self._read(state.cache, state.last, state.filled - 1, write=False)
        return extend_by_steps(self.step, state, law, tokens, lengths, reduce)

    def take(self, state: CachedState, rows: Int[Array, " B2"]) -> CachedState:
        """Gather rows; in place if no row that is copied from changes. See `SequenceModel.take`."""
        rest = jax.tree.map(lambda leaf: leaf[rows], state._replace(cache=()))
        if rows.shape != state.filled.shape:
            return rest._replace(cache=tuple(layer[rows] for layer in state.cache))
        own = jnp.arange(rows.shape[0], dtype=rows.dtype)
        in_place = (rows[rows] == rows).all()

        def gather(moved: tuple[Cache, Array]) -> tuple[Cache, Array]:
            return tuple(layer[rows] for layer in moved[0]), jnp.ones((), bool)

        # A loop of at most one round and not a cond: the rounds of a loop share their buffers.
        cache, _ = jax.lax.while_loop(lambda moved: ~moved[1], gather, (state.cache, in_place))
        changed = in_place & (rows != own)
        return rest._replace(cache=copy_rows(cache, cache, changed, rows, state.filled))

    def select(self, mask: Bool[Array, " B"], a: CachedState, b: CachedState) -> CachedState:
        """Row-wise choice, in place of `b`; see `SequenceModel.select`."""
        own = jnp.arange(mask.shape[0], dtype=jnp.int32)
        changed = mask & (b.filled >= 0)  # always true; see `step`
        cache = copy_rows(b.cache, a.cache, changed, own, a.filled)
        rest = jax.tree.map(
            lambda x, y: jnp.where(mask, x, y), a._replace(cache=()), b._replace(cache=())
        )
        return rest._replace(cache=cache)

    def rewind(
        self, state: CachedState, num_generated: Int[Array, " B"], last_tokens: Int[Array, " B"]
    ) -> tuple[CachedState, Float32[Array, "B V"]]:
        """Shorten; the law is that of reading the last token again. See `SequenceModel.rewind`."""
        filled = state.num_read + num_generated.astype(jnp.int32)
        last = jnp.where(num_generated > 0, last_tokens.astype(jnp.int32), state.prompt_last)
        law, _ = self._read(state.cache, last, filled - 1, write=False)
        return state._replace(filled=filled, last=last), law

    def _read(
        self, cache: Cache, tokens: Int[Array, " B"], at: Int32[Array, " B"], *, write: bool
    ) -> tuple[Float32[Array, "B V"], Cache]:
        """The law after tokens at given places; their keys and values are written, or stand in the cache already."""
        num_rows, num_heads, num_places, depth = cache[0].shape
        rows = jnp.arange(num_rows)
        unseen = jnp.arange(num_places)[None, None] > at[:, None, None]
        x = self.embedding[tokens] + self.places[jnp.minimum(at, num_places - 1)]
        after: list[Array] = []
        for layer, block in enumerate(self.blocks):
            inner = (_norm(x) @ block.query_key_value).reshape(num_rows, 3, num_heads, depth)
            keys, values = cache[2 * layer : 2 * layer + 2]
            if write:
                keys = keys.at[rows, :, at].set(inner[:, 1], mode="drop")
                values = values.at[rows, :, at].set(inner[:, 2], mode="drop")
            after += [keys, values]
            scores = jnp.einsum("bhd,bhsd->bhs", inner[:, 0], keys) / math.sqrt(depth)
            shares = jax.nn.softmax(jnp.where(unseen, -jnp.inf, scores), axis=-1)
            mixed = jnp.einsum("bhs,bhsd->bhd", shares, values).reshape(num_rows, -1)
            x = x + mixed @ block.out
            x = x + jax.nn.silu(_norm(x) @ block.up) @ block.down
        return self._law(_norm(x) @ self.unembedding), tuple(after)

    def _law(self, logits: Float32[Array, "B V"]) -> Float32[Array, "B V"]:
        if not self.eos:
            return jax.nn.log_softmax(logits)
        is_eos = jnp.arange(self.vocab_size)[None] == self.eos[0]
        others = jax.nn.log_softmax(jnp.where(is_eos, -jnp.inf, logits))
        return jax.nn.log_softmax(jnp.where(is_eos, self.eos_logit, others))


def random_transformer(
    key: Key[Array, ""],
    *,
    horizon: int,
    eos_logit: float | None = None,
    longest_prompt: int = 0,
    sharpness: float = 1.0,
    vocab_size: int = 64,
    width: int = 128,
    num_layers: int = 4,
    num_heads: int = 4,
) -> CachedTransformer:
    """Random weights of the usual scales.

    Args:
        key: consumed.
        horizon: most generated tokens.
        eos_logit: log odds of token 0, the eos; None for sequences of one length.
        longest_prompt: most tokens of a prompt.
        sharpness: standard deviation of the logits.
        vocab_size: V.
        width: W.
        num_layers: layers.
        num_heads: H, a divisor of W.

    Returns:
        The model.
    """
    key_e, key_p, key_u, *layer_keys = jax.random.split(key, 3 + 4 * num_layers)

    def weights(key: Array, *shape: int) -> Array:
        return jax.random.normal(key, shape) / math.sqrt(shape[0])

    blocks = tuple(
        Block(
            weights(first, width, 3 * width),
            weights(second, width, width),
            weights(third, width, 4 * width),
            weights(fourth, 4 * width, width),
        )
        for first, second, third, fourth in zip(*[iter(layer_keys)] * 4, strict=True)
    )
    return CachedTransformer(
        embedding=jax.random.normal(key_e, (vocab_size + 1, width)),
        places=jax.random.normal(key_p, (1 + longest_prompt + horizon, width)),
        blocks=blocks,
        unembedding=sharpness * weights(key_u, width, vocab_size),
        eos_logit=jnp.asarray(0.0 if eos_logit is None else eos_logit, jnp.float32),
        eos=() if eos_logit is None else (0,),
        horizon=horizon,
        num_heads=num_heads,
    )


def copy_rows(
    to: Cache,
    source: Cache,
    mask: Bool[Array, " B"],
    rows: Int[Array, " B"],
    filled: Int32[Array, " B"],
) -> Cache:
    """Copy the filled part of some rows, chunk by chunk; a compiler can write this in place of `to`.

    Args:
        to: what is written.
        source: what is read; may be `to` itself if no row that is read is written.
        mask: [B] rows to write.
        rows: [B] where each comes from.
        filled: [B] positions of each source row that count.

    Returns:
        `to` with these rows.
    """
    num_rows, num_heads, num_places, depth = to[0].shape
    chunk = min(CHUNK, num_places)
    (where,) = jnp.nonzero(mask, size=num_rows, fill_value=0)
    num_copies = mask.sum(dtype=jnp.int32)
    same = to is source

    def copy_row(i: Array, now: Cache) -> Cache:
        row = where[i]
        origin = rows[row]

        def copy_chunk(j: Array, now: Cache) -> Cache:
            def one(write: Array, read: Array) -> Array:
                size = (1, num_heads, chunk, depth)
                # Past the end both slices are moved back alike.
                part = jax.lax.dynamic_slice(read, (origin, 0, j * chunk, 0), size)
                return jax.lax.dynamic_update_slice(write, part, (row, 0, j * chunk, 0))

            return tuple(one(w, r) for w, r in zip(now, now if same else source, strict=True))

        num_chunks = (filled[origin] + chunk - 1) // chunk
        return jax.lax.fori_loop(0, num_chunks, copy_chunk, now)

    return jax.lax.fori_loop(0, num_copies, copy_row, to)


def _norm(x: Float32[Array, "B W"]) -> Float32[Array, "B W"]:
    return x * jax.lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)

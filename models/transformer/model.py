"""`SequenceModel` of a transformer: prefill and decode on ragged rows, natively batched.

A row's keys and values stand at its positions 0 .. length - 1 whatever stands beside it. An empty prompt reads as the start token. The law at a
cut is not stored: the last token is read again, which costs one step and leaves the cache as it is.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, DTypeLike, Float, Float32, Int, Int32, Key, PyTree

from models.pytree import register_pytree
from models.transformer.cache import KeyValueCache, empty_cache, select_rows, take_rows
from models.transformer.config import TransformerConfig, check_config
from models.transformer.decoder import Decoder
from models.transformer.laws import next_law, reduce_laws
from theory.errors import InvalidInput
from theory.protocols import Reduce

# Numbers of attention scores of one layer that are held at a time while a block is read.
_SCORES = 1 << 26


class TransformerState(NamedTuple):
    """Where each row stands.

    Attributes:
        cache: what has been read.
        num_read: [B] tokens of the prompt, or 1 for the start token.
        prompt_last: [B] the last of those.
        last: [B] the last token read.
    """

    cache: KeyValueCache
    num_read: Int32[Array, " B"]
    prompt_last: Int32[Array, " B"]
    last: Int32[Array, " B"]


class _Inputs(NamedTuple):
    """Tokens to be read, I of them in each row at most.

    `num_stored` of them stand in the cache already and are read for their hidden state alone.
    """

    tokens: Int[Array, "B I"]
    first_position: Int[Array, " B"]
    counts: Int[Array, " B"]
    num_stored: int


@register_pytree(static=("graph", "config", "horizon"))
@dataclasses.dataclass(frozen=True, eq=False)
class Transformer:
    """`SequenceModel` of a decoder-only transformer.

    Attributes:
        params: parameters of a `Decoder`, as `nnx.split` gives them.
        graph: its structure.
        config: its sizes.
        horizon: most generated tokens.
    """

    params: PyTree
    graph: nnx.GraphDef[Decoder]
    config: TransformerConfig
    horizon: int

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.config.vocab_size

    @property
    def eos(self) -> tuple[int, ...]:
        """Tokens that end a sequence."""
        return self.config.eos

    def decoder(self) -> Decoder:
        """The module with these parameters."""
        return nnx.merge(self.graph, self.params)

    def init(
        self, prompts: Int[Array, "B P"], prompt_lengths: Int[Array, " B"]
    ) -> tuple[TransformerState, Float32[Array, "B V"]]:
        """Read the prompts in chunks; see `SequenceModel.init`."""
        if prompts.shape[1] == 0:
            prompts = jnp.zeros((prompts.shape[0], 1), jnp.int32)
        num_rows, width = prompts.shape
        begin = jnp.where(prompt_lengths > 0, prompts[:, 0], self.config.start_token)
        tokens = prompts.astype(jnp.int32).at[:, 0].set(begin.astype(jnp.int32))
        counts = jnp.maximum(prompt_lengths, 1).astype(jnp.int32)
        decoder = self.decoder()
        dtype = decoder.embedding[...].dtype
        cache = empty_cache(self.config, num_rows, width, dtype)
        inputs = _Inputs(tokens, jnp.zeros_like(counts), counts, 0)
        cache, hidden, _ = self._read(decoder, cache, inputs, None, None)
        # Prompts attend to prompts alone; only then there is room for what is generated.
        room = ((0, 0), (0, 0), (0, self.horizon), (0, 0))
        cache = cache._replace(layers=tuple(jnp.pad(layer, room) for layer in cache.layers))
        last = jnp.take_along_axis(tokens, counts[:, None] - 1, axis=1)[:, 0]
        return TransformerState(cache, counts, last, last), next_law(decoder, hidden)

    def step(
        self, state: TransformerState, tokens: Int[Array, " B"], active: Bool[Array, " B"]
    ) -> tuple[TransformerState, Float32[Array, "B V"]]:
        """Read one token a row; see `SequenceModel.step`."""
        decoder, (layers, lengths) = self.decoder(), state.cache
        tokens = jnp.where(active, tokens, 0).astype(jnp.int32)
        places = jnp.where(active, lengths, layers[0].shape[2])[:, None]
        hidden, layers = decoder.cached(layers, tokens[:, None], lengths[:, None], places)
        law = next_law(decoder, hidden[:, 0])
        # No log probability is above 0. With this, who knows the lengths has waited for the law: a compiler that cannot tell whether a row
        # is overwritten (`select`) before the last layer has read it copies the whole cache to be safe.
        lengths = lengths + (active & (law[:, 0] <= 0)).astype(jnp.int32)
        last = jnp.where(active, tokens, state.last)
        return state._replace(cache=KeyValueCache(layers, lengths), last=last), law

    def extend(
        self,
        state: TransformerState,
        tokens: Int[Array, "B S"],
        lengths: Int[Array, " B"],
        reduce: Reduce,
    ) -> tuple[TransformerState, PyTree, Float32[Array, "B V"]]:
        """Read a block in chunks, each at once; see `SequenceModel.extend`."""
        decoder = self.decoder()
        width, counts = tokens.shape[1], lengths.astype(jnp.int32)
        known = jnp.arange(width, dtype=jnp.int32)[None] < counts[:, None]
        tokens = jnp.where(known, tokens, 0).astype(jnp.int32)
        # The law before the first token of the block is that after the last one read.
        inputs = _Inputs(
            jnp.concatenate([state.last[:, None], tokens], axis=1),
            state.cache.lengths - 1,
            counts + 1,
            1,
        )
        following = jnp.pad(tokens, ((0, 0), (0, 1)))
        cache, hidden, reduced = self._read(decoder, state.cache, inputs, following, reduce)

        def within(values: Array) -> Array:
            values = values[:, :width]
            return jnp.where(known, values, jnp.zeros_like(values))

        last = jnp.take_along_axis(inputs.tokens, counts[:, None], axis=1)[:, 0]
        state = state._replace(cache=cache, last=last)
        return state, jax.tree.map(within, reduced), next_law(decoder, hidden)

    def take(self, state: TransformerState, rows: Int[Array, " B2"]) -> TransformerState:
        """Gather rows; see `SequenceModel.take` and `models.transformer.cache`."""
        rest = jax.tree.map(lambda leaf: leaf[rows], tuple(state[1:]))
        return TransformerState(take_rows(state.cache, rows), *rest)

    def select(
        self, mask: Bool[Array, " B"], a: TransformerState, b: TransformerState
    ) -> TransformerState:
        """Row-wise choice; see `SequenceModel.select` and `models.transformer.cache`."""
        # Always true; see `step`.
        mask = mask & (b.cache.lengths >= 0)
        rest = jax.tree.map(lambda x, y: jnp.where(mask, x, y), tuple(a[1:]), tuple(b[1:]))
        return TransformerState(select_rows(mask, a.cache, b.cache), *rest)

    def rewind(
        self,
        state: TransformerState,
        num_generated: Int[Array, " B"],
        last_tokens: Int[Array, " B"],
    ) -> tuple[TransformerState, Float32[Array, "B V"]]:
        """Shorten, and read the last token again; see `SequenceModel.rewind`."""
        decoder, layers = self.decoder(), state.cache.layers
        lengths = state.num_read + num_generated.astype(jnp.int32)
        last = jnp.where(num_generated > 0, last_tokens, state.prompt_last).astype(jnp.int32)
        nowhere = jnp.full_like(lengths, layers[0].shape[2])[:, None]
        hidden, _ = decoder.cached(layers, last[:, None], lengths[:, None] - 1, nowhere)
        state = state._replace(cache=KeyValueCache(layers, lengths), last=last)
        return state, next_law(decoder, hidden[:, 0])

    def _read(
        self,
        decoder: Decoder,
        cache: KeyValueCache,
        inputs: _Inputs,
        following: Int[Array, "B I"] | None,
        reduce: Reduce | None,
    ) -> tuple[KeyValueCache, Float[Array, "B W"], PyTree]:
        """Read inputs chunk by chunk: the cache, the hidden state at each row's last input, and reduced laws."""
        num_rows, num_inputs = inputs.tokens.shape
        num_places = cache.layers[0].shape[2]
        scores = num_rows * self.config.num_heads * num_places
        chunk = max(1, min(num_inputs, _SCORES // scores))
        num_chunks = -(-num_inputs // chunk)

        def chunks(block: Int[Array, "B I"]) -> Int[Array, "n B C"]:
            padded = jnp.pad(block, ((0, 0), (0, num_chunks * chunk - num_inputs)))
            return padded.reshape(num_rows, num_chunks, chunk).swapaxes(0, 1)

        def read(carry: PyTree, here: PyTree) -> tuple[PyTree, PyTree]:
            layers, at_end = carry
            first, tokens, targets = here
            index = first + jnp.arange(chunk, dtype=jnp.int32)[None]
            new = (index >= inputs.num_stored) & (index < inputs.counts[:, None])
            positions = inputs.first_position[:, None] + index
            places = jnp.where(new, positions, num_places)
            hidden, layers = decoder.cached(layers, tokens, positions, places)
            is_end = (index == inputs.counts[:, None] - 1)[..., None]
            # Not a sum: a row's own state, bit for bit.
            own = jnp.max(jnp.where(is_end, hidden, -jnp.inf), axis=1)
            at_end = jnp.where(is_end.any(axis=1), own, at_end)
            reduced = None if reduce is None else reduce_laws(decoder, hidden, targets, reduce)
            return (layers, at_end), reduced

        firsts = chunk * jnp.arange(num_chunks, dtype=jnp.int32)
        targets = None if following is None else chunks(following)
        at_end = jnp.zeros((num_rows, self.config.width), decoder.embedding[...].dtype)
        (layers, at_end), reduced = jax.lax.scan(
            read, (cache.layers, at_end), (firsts, chunks(inputs.tokens), targets)
        )
        reduced = jax.tree.map(lambda v: v.swapaxes(0, 1).reshape(num_rows, -1), reduced)
        lengths = inputs.first_position + inputs.counts
        return KeyValueCache(layers, lengths), at_end, reduced


def random_transformer(
    key: Key[Array, ""],
    config: TransformerConfig,
    horizon: int,
    dtype: DTypeLike = jnp.float32,
) -> Transformer:
    """Random weights of the usual scales.

    Args:
        key: consumed.
        config: sizes and choices.
        horizon: most generated tokens.
        dtype: of the weights, norms excepted.

    Returns:
        The model.

    Raises:
        InvalidInput: sizes that do not fit.
    """
    decoder = Decoder(check_config(config), nnx.Rngs(params=key), dtype)
    return from_decoder(decoder, horizon)


def from_decoder(decoder: Decoder, horizon: int) -> Transformer:
    """A model of the parameters of a module.

    Args:
        decoder: the module.
        horizon: most generated tokens.

    Returns:
        The model.

    Raises:
        InvalidInput: horizon < 1.
    """
    if horizon < 1:
        raise InvalidInput(f"horizon {horizon}: must be at least 1")
    graph, params = nnx.split(decoder)
    return Transformer(params, graph, decoder.config, horizon)


def with_horizon(model: Transformer, horizon: int) -> Transformer:
    """The same weights, for longer or shorter sequences.

    Args:
        model: any.
        horizon: most generated tokens.

    Returns:
        The model.

    Raises:
        InvalidInput: horizon < 1.
    """
    if horizon < 1:
        raise InvalidInput(f"horizon {horizon}: must be at least 1")
    return dataclasses.replace(model, horizon=horizon)

"""A sequence model without arrays, and one twin of it for each way of breaking the protocol.

Rows are Python tuples and every law is looked up from the start, so there is nothing that could be stale, shifted or
shared. It does not trace: put it through `check_sequence_model` under `jax.disable_jit`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from models.pytree import register_pytree

T = TypeVar("T")
STATIC = ("initial", "eos", "horizon")


class Row(NamedTuple):
    prompt: tuple[int, ...]
    generated: tuple[int, ...]


Rows = list[Row]


def add(row: Row, *tokens: int) -> Row:
    return row._replace(generated=row.generated + tokens)


@register_pytree(static=STATIC)
@dataclasses.dataclass(frozen=True, eq=False)
class NaiveModel:
    log_probs: np.ndarray
    next_context: np.ndarray
    initial: int
    eos: tuple[int, ...]
    horizon: int

    @property
    def vocab_size(self) -> int:
        return self.log_probs.shape[1]

    def law(self, row: Row) -> np.ndarray:
        over = len(row.generated) >= self.horizon or set(row.generated) & set(self.eos)
        if over:
            return np.full(self.vocab_size, -math.log(self.vocab_size), np.float32)
        context = self.initial
        for token in row.prompt + row.generated:
            context = self.next_context[context, token]
        return self.log_probs[context].astype(np.float32)

    def laws(self, rows: Rows) -> Array:
        return jnp.asarray(np.stack([self.law(row) for row in rows]))

    def unused(self, laws: Array, used: Any) -> Array:
        return jnp.where(jnp.asarray(used)[:, None], laws, -math.log(self.vocab_size))

    def init(self, prompts: Array, prompt_lengths: Array) -> tuple[Rows, Array]:
        pairs = zip(prompts.tolist(), prompt_lengths.tolist(), strict=True)
        rows = [Row(tuple(prompt[:length]), ()) for prompt, length in pairs]
        return rows, self.laws(rows)

    def step(self, state: Rows, tokens: Array, active: Array) -> tuple[Rows, Array]:
        moves = zip(state, tokens.tolist(), active.tolist(), strict=True)
        rows = [add(row, token) if moved else row for row, token, moved in moves]
        return rows, self.unused(self.laws(rows), active)

    def extend(
        self, state: Rows, tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> tuple[Rows, Any, Array]:
        laws = [self.laws(state)]
        for j in range(tokens.shape[1]):
            state, law = self.step(state, tokens[:, j], j < lengths)
            laws.append(jnp.where((j < lengths)[:, None], law, laws[-1]))
        return (
            state,
            self.reduced(laws, tokens, lengths, reduce),
            self.unused(laws[-1], lengths > 0),
        )

    def reduced(
        self, laws: list[Array], tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> Any:
        within = jnp.arange(tokens.shape[1])[None] < lengths[:, None]
        before = jnp.stack(laws[:-1], axis=1)
        values = reduce(before, tokens)
        return jax.tree.map(lambda value: jnp.where(within, value, 0), values)

    def take(self, state: Rows, rows: Array) -> Rows:
        return [state[row] for row in rows.tolist()]

    def select(self, mask: Array, a: Rows, b: Rows) -> Rows:
        return [x if first else y for first, x, y in zip(mask.tolist(), a, b, strict=True)]

    def rewind(self, state: Rows, num_generated: Array, last_tokens: Array) -> tuple[Rows, Array]:
        pairs = zip(state, num_generated.tolist(), strict=True)
        rows = [row._replace(generated=row.generated[:count]) for row, count in pairs]
        return rows, self.laws(rows)


TWINS: dict[type[NaiveModel], str] = {}


def breaks(law: str) -> Callable[[type[T]], type[T]]:
    """Register a twin with the law that it must be found to break."""

    def register(cls: type[T]) -> type[T]:
        TWINS[register_pytree(static=STATIC)(cls)] = law  # pyright: ignore[reportArgumentType]
        return cls

    return register


@breaks("a law is float32 [B, V]")
class HalfPrecision(NaiveModel):
    def laws(self, rows: Rows) -> Array:
        return super().laws(rows).astype(jnp.float16)


@breaks("laws are normalised")
class Unnormalised(NaiveModel):
    def law(self, row: Row) -> np.ndarray:
        return super().law(row) + np.float32(0.01)


@breaks("rows are independent")
class CoupledRows(NaiveModel):
    def laws(self, rows: Rows) -> Array:
        alone = jnp.exp(super().laws(rows))
        return jnp.log(0.9 * alone + 0.1 * alone.mean(axis=0, keepdims=True))


@breaks("an old state stays valid")
class InPlace(NaiveModel):
    def step(self, state: Rows, tokens: Array, active: Array) -> tuple[Rows, Array]:
        state[:], law = super().step(state, tokens, active)
        return state, law


@breaks("an inactive row keeps its state, and its token is not read")
class IgnoresActive(NaiveModel):
    def step(self, state: Rows, tokens: Array, active: Array) -> tuple[Rows, Array]:
        rows, law = super().step(state, tokens, jnp.ones_like(active))
        return rows, self.unused(law, active)


@breaks("unused laws are finite")
class InfiniteWhereUnused(NaiveModel):
    def unused(self, laws: Array, used: Any) -> Array:
        return jnp.where(jnp.asarray(used)[:, None], laws, -jnp.inf)


@breaks("rewind to 0 gives the first law")
class RewindLosesPrompt(NaiveModel):
    def rewind(self, state: Rows, num_generated: Array, last_tokens: Array) -> tuple[Rows, Array]:
        rows, law = super().rewind(state, num_generated, last_tokens)
        gone = [row._replace(prompt=()) for row in rows]
        return rows, jnp.where((num_generated == 0)[:, None], self.laws(gone), law)


@breaks("rewind gives the law at the cut")
class RewindOffByOne(NaiveModel):
    def rewind(self, state: Rows, num_generated: Array, last_tokens: Array) -> tuple[Rows, Array]:
        return super().rewind(state, jnp.maximum(num_generated - 1, 0), last_tokens)


@breaks("a step after rewind equals a fresh step")
class RewindKeepsSuffix(NaiveModel):
    def rewind(self, state: Rows, num_generated: Array, last_tokens: Array) -> tuple[Rows, Array]:
        return state, super().rewind(state, num_generated, last_tokens)[1]


@breaks("take gathers rows")
class TakeIgnoresRows(NaiveModel):
    def take(self, state: Rows, rows: Array) -> Rows:
        return super().take(state, jnp.arange(rows.shape[0]) % len(state))


@breaks("take gathers rows")
class TakeCannotShrink(NaiveModel):
    def take(self, state: Rows, rows: Array) -> Rows:
        shrinks = rows.shape[0] < len(state)
        return super().take(state, rows[::-1] if shrinks else rows)


@breaks("select takes a where the mask is true")
class SelectMixesAlways(NaiveModel):
    def select(self, mask: Array, a: Rows, b: Rows) -> Rows:
        return super().select(mask.at[0].set(False) if bool(mask.all()) else mask, a, b)


@breaks("unused laws are finite")
class ExtendLeavesNothingBehindTheEnd(NaiveModel):
    def extend(
        self, state: Rows, tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> tuple[Rows, Any, Array]:
        rows, values, law = super().extend(state, tokens, lengths, reduce)
        over = jnp.asarray([bool(set(row.generated) & set(self.eos)) for row in rows])
        return rows, values, jnp.where(over[:, None], jnp.nan, law)


@breaks("two chunks equal one")
class ExtendByNothingDropsAToken(NaiveModel):
    def extend(
        self, state: Rows, tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> tuple[Rows, Any, Array]:
        rows, values, law = super().extend(state, tokens, lengths, reduce)
        pairs = zip(rows, lengths.tolist(), strict=True)
        return (
            [row if n else row._replace(generated=row.generated[:-1]) for row, n in pairs],
            values,
            law,
        )


@breaks("select takes a where the mask is true")
class SelectSwapped(NaiveModel):
    def select(self, mask: Array, a: Rows, b: Rows) -> Rows:
        return super().select(mask, b, a)


@breaks("extend equals steps")
class ExtendIgnoresLengths(NaiveModel):
    def extend(
        self, state: Rows, tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> tuple[Rows, Any, Array]:
        _, values, law = super().extend(state, tokens, lengths, reduce)
        return [add(*pair) for pair in _appended(state, tokens.tolist())], values, law


def _appended(state: Rows, tokens: list[list[int]]) -> list[tuple[Any, ...]]:
    return [(row, *block) for row, block in zip(state, tokens, strict=True)]


@breaks("reduce sees the law before the token, and the token")
class ReduceSeesLawAfter(NaiveModel):
    def reduced(
        self, laws: list[Array], tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> Any:
        return super().reduced([*laws[1:], laws[-1]], tokens, lengths, reduce)


@breaks("reduced values are 0 past a row's length")
class ReducesPadding(NaiveModel):
    def reduced(
        self, laws: list[Array], tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> Any:
        return super().reduced(laws, tokens, jnp.full_like(lengths, tokens.shape[1]), reduce)


@breaks("two chunks equal one")
class ExtendFromThePrompt(NaiveModel):
    def extend(
        self, state: Rows, tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> tuple[Rows, Any, Array]:
        return super().extend(
            [row._replace(generated=()) for row in state], tokens, lengths, reduce
        )


@breaks("the padding of prompts is never read")
class ReadsPromptPadding(NaiveModel):
    def init(self, prompts: Array, prompt_lengths: Array) -> tuple[Rows, Array]:
        return super().init(prompts, jnp.full_like(prompt_lengths, prompts.shape[1]))


@breaks("the padding of blocks is never read")
class TakesAnyTokenForReal(NaiveModel):
    def extend(
        self, state: Rows, tokens: Array, lengths: Array, reduce: Callable[..., Any]
    ) -> tuple[Rows, Any, Array]:
        counted = jnp.max(jnp.where(tokens != 0, jnp.arange(tokens.shape[1])[None] + 1, 0), axis=1)
        return super().extend(state, tokens, jnp.maximum(lengths, counted), reduce)


@breaks("a row alone equals its row in the batch")
class PadsOnTheLeft(NaiveModel):
    def init(self, prompts: Array, prompt_lengths: Array) -> tuple[Rows, Array]:
        rows, _ = super().init(prompts, prompt_lengths)
        width = prompts.shape[1]
        rows = [row._replace(prompt=(0,) * (width - len(row.prompt)) + row.prompt) for row in rows]
        return rows, self.laws(rows)


@breaks("an empty prompt has no columns to read")
class NeedsAColumn(NaiveModel):
    def init(self, prompts: Array, prompt_lengths: Array) -> tuple[Rows, Array]:
        rows, law = super().init(prompts, prompt_lengths)
        return rows, law if prompts.shape[1] else jnp.roll(law, 1, axis=1)

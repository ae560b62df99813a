"""The laws of `SequenceModel`, from the plainest to the most composite. Each takes the case and its reference walk."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from theory.conformance.observe import (
    expect_ahead,
    expect_cut,
    expect_end,
    expect_other_way,
    expect_reduced,
    expect_state,
    fills,
    finite,
    same,
)
from theory.conformance.operations import (
    extend,
    init,
    select,
    step,
    take,
    token_and_log_prob,
)
from theory.conformance.walk import Case, ConformanceError, Walk


def _sizes(case: Case, walk: Walk) -> None:
    """Sizes survive flattening, which is how they stay static under jit."""
    del walk
    model = case.model
    leaves, structure = jax.tree.flatten(model)
    rebuilt = jax.tree.unflatten(structure, leaves)
    sizes = [(m.vocab_size, m.eos, m.horizon) for m in (model, rebuilt)]
    arrays = all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves)
    known = all(0 <= token < model.vocab_size for token in model.eos)
    if sizes[0] != sizes[1] or not arrays or not known or model.horizon < 1:
        raise ConformanceError(f"a model is a pytree with static sizes: got {sizes}")


def _normalised(case: Case, walk: Walk) -> None:
    for laws, meant in zip(walk.laws, walk.meant, strict=True):
        with np.errstate(all="ignore"):
            total = np.log(np.exp(laws.astype(np.float64)).sum(axis=1))
        same("laws are normalised", case, total[:, None], np.zeros((len(total), 1)), meant)


def _independent(case: Case, walk: Walk) -> None:
    """The first row becomes a copy of the last; the others must not notice."""
    rows = np.arange(len(case.lengths))
    rows[0] = rows[-1]
    state, law = init(case.model, case.prompts[rows], case.prompt_lengths[rows])
    same("rows are independent", case, law, walk.laws[0, rows], walk.meant[0, rows])
    expect_ahead("rows are independent", case, walk, state, np.zeros_like(rows), rows)


def _old_state(case: Case, walk: Walk) -> None:
    """No operation changes its argument."""
    for j in (0, 1):
        active = j < case.lengths
        _, law = step(case.model, walk.states[j], case.tokens[:, j], active)
        meant = walk.meant[j + 1] & active
        same("an old state stays valid", case, law, walk.laws[j + 1], meant)


def _inactive(case: Case, walk: Walk) -> None:
    """Half of the rows step, then the other half: all stand where one step of all would have put them."""
    name = "an inactive row keeps its state, and its token is not read"
    half = np.arange(len(case.lengths)) % 2 == 0
    for fill in fills(case):
        state = walk.states[0]
        for rows in (half, ~half):
            active = rows & (case.lengths > 0)
            tokens = np.where(active, case.tokens[:, 0], fill)
            state, law = step(case.model, state, tokens, active)
            same(name, case, law, walk.laws[1], active & walk.meant[1])
        expect_ahead(name, case, walk, state, np.minimum(case.lengths, 1))


def _unused(case: Case, walk: Walk) -> None:
    """Rows that have ended, are truncated or are inactive."""
    name = "unused laws are finite"
    for laws, meant in zip(walk.laws, walk.meant, strict=True):
        finite(name, laws, ~meant)
    nobody = np.zeros(len(case.lengths), bool)
    _, law = step(case.model, walk.states[0], case.tokens[:, 0], nobody)
    finite(name, law, ~nobody)
    _, _, law = extend(case.model, walk.states[0], case.tokens, np.zeros_like(case.lengths))
    finite(name, law, ~nobody)
    _, _, law = extend(case.model, walk.states[0], case.tokens, case.lengths)
    rows = np.arange(len(case.lengths))
    finite(name, law, ~walk.meant[case.lengths, rows])


def _rewind(case: Case, walk: Walk) -> None:
    """From the end of the walk to every place on it, and on from there, also another way than before."""
    rows = np.arange(len(case.lengths))
    for j, fresh in enumerate(walk.states):
        name = "rewind gives the law at the cut" if j else "rewind to 0 gives the first law"
        num_generated = np.minimum(j, case.lengths)
        back = expect_cut(name, case, walk, walk.states[-1], num_generated, rows)
        name = "a step after rewind equals a fresh step"
        expect_ahead(name, case, walk, back, num_generated)
        expect_other_way(name, case, walk, back, fresh, num_generated, walk.meant[j])


def _take(case: Case, walk: Walk) -> None:
    """One row more than there were, in another order, some of them twice; and fewer rows."""
    more = np.append(np.arange(len(case.lengths))[::-1], [0, 0])[1:]
    more[1] = more[0]
    for j in (1, len(walk.states) - 1):
        for rows in (more, more[1:3]):
            state = take(case.model, walk.states[j], rows)
            num_generated = np.minimum(j, case.lengths)[rows]
            expect_state("take gathers rows", case, walk, state, num_generated, rows)


def _select(case: Case, walk: Walk) -> None:
    mask = np.arange(len(case.lengths)) % 2 == 0
    for choice in (mask, ~mask, mask | True, mask & False):
        state = select(case.model, choice, walk.states[-1], walk.states[0])
        num_generated = np.where(choice, case.lengths, 0)
        expect_state("select takes a where the mask is true", case, walk, state, num_generated)


def _extend(case: Case, walk: Walk) -> None:
    state, values, law = extend(case.model, walk.states[0], case.tokens, case.lengths)
    expect_end("extend equals steps", case, walk, state, law, case.lengths > 0)
    expect_reduced(case, walk, values, np.zeros_like(case.lengths), case.lengths)


def _chunks(case: Case, walk: Walk) -> None:
    width = case.tokens.shape[1]
    half = width // 2
    first = np.minimum(case.lengths, half)
    rest = case.lengths - first
    begun = np.where(np.arange(width)[None] < first[:, None], case.tokens, 0)
    state, values, _ = extend(case.model, walk.states[0], begun, first)
    expect_reduced(case, walk, values, np.zeros_like(first), first)
    tokens = np.pad(case.tokens[:, half:], ((0, 0), (0, half)))
    state, values, law = extend(case.model, state, tokens, rest)
    expect_end("two chunks equal one", case, walk, state, law, rest > 0)
    expect_reduced(case, walk, values, first, rest)


def _padding(case: Case, walk: Walk) -> None:
    """Any token may stand past a row's length."""
    read = np.arange(case.prompts.shape[1])[None] < case.prompt_lengths[:, None]
    within = np.arange(case.tokens.shape[1])[None] < case.lengths[:, None]
    for fill in fills(case):
        name = "the padding of prompts is never read"
        prompts = np.where(read, case.prompts, fill).astype(np.int32)
        state, law = init(case.model, prompts, case.prompt_lengths)
        same(name, case, law, walk.laws[0], walk.meant[0])
        expect_ahead(name, case, walk, state, np.zeros_like(case.lengths))
        name = "the padding of blocks is never read"
        tokens = np.where(within, case.tokens, fill).astype(np.int32)
        state, _, law = extend(case.model, walk.states[0], tokens, case.lengths)
        expect_end(name, case, walk, state, law, case.lengths > 0)


def _alone(case: Case, walk: Walk) -> None:
    """Without the other rows and without padding."""
    name = "a row alone equals its row in the batch"
    for row, length in enumerate(case.prompt_lengths):
        rows = np.array([row])
        state, law = init(case.model, case.prompts[rows, :length], case.prompt_lengths[rows])
        same(name, case, law, walk.laws[0, rows], walk.meant[0, rows], rows)
        expect_ahead(name, case, walk, state, np.zeros_like(rows), rows)


def _empty(case: Case, walk: Walk) -> None:
    """No prompt: without a column, or with columns that are not read."""
    del walk
    nothing = np.zeros_like(case.prompt_lengths)
    _, bare = init(case.model, case.prompts[:, :0], nothing)
    _, padded = init(case.model, case.prompts, nothing)
    everyone = nothing == 0
    same("an empty prompt has no columns to read", case, padded, np.asarray(bare), everyone)


def _jit(case: Case, walk: Walk) -> None:
    """The same operations, one by one."""
    name = "jit changes nothing"
    model, rows = case.model, np.arange(len(case.lengths))
    tokens, lengths = jnp.asarray(case.tokens), jnp.asarray(case.lengths)
    start, law = model.init(jnp.asarray(case.prompts), jnp.asarray(case.prompt_lengths))
    same(name, case, law, walk.laws[0], walk.meant[0])
    _, law = model.step(start, tokens[:, 0], lengths > 0)
    same(name, case, law, walk.laws[1], walk.meant[1] & (case.lengths > 0))
    state, _, law = model.extend(start, tokens, lengths, token_and_log_prob)
    expect_end(name, case, walk, state, law, case.lengths > 0)
    cut = np.minimum(case.lengths, 1)
    state, law = model.rewind(state, jnp.asarray(cut), tokens[:, 0])
    same(name, case, law, walk.laws[cut, rows], walk.meant[cut, rows])
    state = model.select(lengths % 2 == 0, model.take(state, jnp.asarray(rows)), start)
    expect_state(name, case, walk, state, np.where(case.lengths % 2 == 0, cut, 0))


LAWS: tuple[Callable[[Case, Walk], None], ...] = (
    _sizes,
    _normalised,
    _old_state,
    _independent,
    _inactive,
    _unused,
    _rewind,
    _take,
    _select,
    _extend,
    _chunks,
    _padding,
    _alone,
    _empty,
    _jit,
)

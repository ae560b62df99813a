"""What can be observed of a state, compared with the walk: what follows it, and what lies behind it."""

from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from theory.conformance.operations import rewind, step
from theory.conformance.walk import Case, ConformanceError, Walk

Values = Shaped[Array, "B N"] | Shaped[np.ndarray, "B N"]
Rows = Int[np.ndarray, " B"]


def same(
    law: str,
    case: Case,
    got: Values,
    want: Values,
    checked: Bool[np.ndarray, " B"],
    rows: Rows | None = None,
) -> None:
    """Fail at the first checked row in which two arrays [B, N] differ; `rows` are their numbers in the case."""
    got, want = np.asarray(got), np.asarray(want)
    with np.errstate(invalid="ignore"):
        close = (got == want) | (np.abs(got - want) <= case.tolerance)
    wrong = checked & ~close.all(axis=1)
    if wrong.any():
        first = int(np.argmax(wrong))
        row = first if rows is None else rows[first]
        raise ConformanceError(f"{law}: row {row}: got {got[first]}, not {want[first]}")


def finite(law: str, got: Values, checked: Bool[np.ndarray, " B"]) -> None:
    """Fail at the first checked row of [B, N] that is not finite."""
    got = np.asarray(got)
    wrong = checked & ~np.isfinite(got).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConformanceError(f"{law}: row {row}: got {got[row]}")


def fills(case: Case) -> list[int]:
    """Tokens to put where nothing may be read; 0 stands there already."""
    return sorted({case.model.vocab_size - 1, *case.model.eos} - {0})


def expect_ahead(
    law: str, case: Case, walk: Walk, state: Any, num_generated: Rows, rows: Rows | None = None
) -> None:
    """Step on to the end of each row: the laws are those of the walk after num_generated tokens of `rows`."""
    rows = np.arange(len(case.lengths)) if rows is None else rows
    width = case.tokens.shape[1]
    for j in range(width):
        position = num_generated + j
        active = position < case.lengths[rows]
        tokens = case.tokens[rows, np.minimum(position, width - 1)]
        state, log_probs = step(case.model, state, tokens, active)
        after = np.minimum(position + 1, width)
        same(law, case, log_probs, walk.laws[after, rows], active & walk.meant[after, rows], rows)


def expect_cut(
    law: str, case: Case, walk: Walk, state: Any, num_generated: Rows, rows: Rows
) -> Any:
    """Rewind to num_generated tokens, check the law there and return the state."""
    last = case.tokens[rows, np.maximum(num_generated - 1, 0)]
    last = np.where(num_generated > 0, last, fills(case)[-1]).astype(np.int32)
    state, log_probs = rewind(case.model, state, num_generated, last)
    want, meant = walk.laws[num_generated, rows], walk.meant[num_generated, rows]
    same(law, case, log_probs, want, meant, rows)
    return state


def expect_state(
    law: str, case: Case, walk: Walk, state: Any, num_generated: Rows, rows: Rows | None = None
) -> None:
    """The state stands where the walk stood after num_generated tokens of `rows`: ahead, and at every cut behind."""
    rows = np.arange(len(case.lengths)) if rows is None else rows
    expect_ahead(law, case, walk, state, num_generated, rows)
    for j in range(case.tokens.shape[1] + 1):
        expect_cut(law, case, walk, state, np.minimum(j, num_generated), rows)


def expect_other_way(
    law: str,
    case: Case,
    walk: Walk,
    state: Any,
    fresh: Any,
    num_generated: Rows,
    active: Bool[np.ndarray, " B"],
) -> None:
    """Two steps off the walk's path, from two states that should be the same."""
    rows = np.arange(len(num_generated))
    log_probs = walk.laws[num_generated, rows]
    for further in (0, 1):
        position = num_generated + further
        usual = case.tokens[rows, np.minimum(position, case.tokens.shape[1] - 1)]
        tokens, possible = another_token(case, log_probs, usual)
        active = active & possible & (position + 1 < case.model.horizon)
        state, got = step(case.model, state, tokens, active)
        fresh, log_probs = step(case.model, fresh, tokens, active)
        same(law, case, got, log_probs, active)


def expect_end(
    law: str, case: Case, walk: Walk, state: Any, log_probs: Array, moved: Bool[np.ndarray, " B"]
) -> None:
    """The state is that of the end of the walk, and so is the law of rows that moved to get there."""
    rows = np.arange(len(case.lengths))
    meant = walk.meant[case.lengths, rows]
    same(law, case, log_probs, walk.laws[case.lengths, rows], meant & moved)
    expect_state(law, case, walk, state, case.lengths)
    expect_other_way(law, case, walk, state, walk.states[-1], case.lengths, meant)


def expect_reduced(case: Case, walk: Walk, values: Any, first: Rows, lengths: Rows) -> None:
    """Reduced values of the block that begins after `first` tokens are those of the law before each token."""
    width = case.tokens.shape[1]
    position = np.minimum(first[:, None] + np.arange(width)[None], width - 1)
    rows = np.arange(len(first))[:, None]
    tokens = case.tokens[rows, position]
    within = np.arange(width)[None] < lengths[:, None]
    name = "reduce sees the law before the token, and the token"
    want = {"token": tokens, "log_prob": walk.laws[position, rows, tokens]}
    for key, value in values.items():
        expected = np.where(within, want[key], value)
        same(name, case, value, expected, lengths > 0)
        past = np.where(within, 0, value)
        same(
            "reduced values are 0 past a row's length",
            case,
            past,
            np.zeros_like(past),
            rows[:, 0] >= 0,
        )


def another_token(
    case: Case, log_probs: Values, usual: Rows
) -> tuple[Rows, Bool[np.ndarray, " B"]]:
    """The likeliest token of each row that is neither the usual one nor eos, and whether there is one."""
    others = np.array(log_probs)
    others[:, list(case.model.eos)] = -np.inf
    others[np.arange(len(usual)), usual] = -np.inf
    tokens = np.argmax(others, axis=1).astype(np.int32)
    return tokens, others[np.arange(len(usual)), tokens] > -np.inf

"""Several examples in a row: a transformer then wastes no work on padding.

An example is a prompt and its completion. Position i of a row predicts the token after it, so the last token of an example is
predicted and never read: n tokens take n - 1 places. Which tokens of a row belong together is said by segments, and each counts its
positions from 0; a packed example has the law that it has alone.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Int, Int32

from models.tasks.task import PAD, Sequences
from theory.errors import InvalidInput


class PackedRows(NamedTuple):
    """R rows of S places.

    Attributes:
        tokens: [..., R, S] read at each place.
        positions: [..., R, S] of each in its example.
        segments: [..., R, S] which example of the row, from 1; 0 is padding.
        targets: [..., R, S] the token after each.
        counted: [..., R, S] whether that token is part of a completion: prompts are read and not learned.
    """

    tokens: Int32[np.ndarray | Array, "*steps R S"]
    positions: Int32[np.ndarray | Array, "*steps R S"]
    segments: Int32[np.ndarray | Array, "*steps R S"]
    targets: Int32[np.ndarray | Array, "*steps R S"]
    counted: Bool[np.ndarray | Array, "*steps R S"]


def num_packed_rows(num_examples: int, longest: int, width: int) -> int:
    """Rows that always suffice, so that all steps of a run have one shape.

    Examples are packed in order and a row is closed when the next one does not fit. Each row but the last then holds at least
    m = floor(width / longest) of them, because m + 1 - 1 examples always fit: ceil(examples / m) rows do.

    Args:
        num_examples: of a step.
        longest: most places that an example takes.
        width: S.

    Returns:
        R.

    Raises:
        InvalidInput: the longest example does not fit into a row.
    """
    if longest > width:
        raise InvalidInput(
            f"rows of {width} tokens: an example takes up to {longest}, give at least that many"
        )
    return -(-num_examples // (width // longest))


def pack(
    prompts: Sequences, completions: Sequences, start_token: int, num_rows: int, width: int
) -> PackedRows:
    """Put examples into rows, in order.

    Args:
        prompts: of B examples; an empty one reads as the start token, as it does for `Transformer.init`.
        completions: of the same; eos counts where it stands, and nothing where a completion is truncated.
        start_token: of the model.
        num_rows: R, see `num_packed_rows`.
        width: S.

    Returns:
        The rows; those that stay empty are padding.

    Raises:
        InvalidInput: the examples do not fit.
    """
    joined, begins, ends = _joined(prompts, completions, start_token)
    lengths = ends - 1
    rows, columns = _places(lengths, num_rows, width)
    offsets = np.arange(joined.shape[1] - 1)[None]
    inside = offsets < lengths[:, None]
    where = (
        np.broadcast_to(rows[:, None], inside.shape)[inside],
        (columns[:, None] + offsets)[inside],
    )
    # An example is the first of its row where it begins in column 0.
    first = np.maximum.accumulate(np.where(columns == 0, np.arange(len(rows)), 0))
    ordinals = np.arange(len(rows)) - first + 1
    padding = np.broadcast_to(np.arange(width), (num_rows, width))

    def placed(values: Int[np.ndarray, "B L"], empty: Int[np.ndarray, "R S"]) -> np.ndarray:
        whole = empty.astype(np.int32)
        whole[where] = np.broadcast_to(values, inside.shape)[inside]
        return whole

    nothing = np.full((num_rows, width), PAD)
    counted = (offsets + 1 >= begins[:, None]).astype(np.int32)
    return PackedRows(
        tokens=placed(joined[:, :-1], nothing),
        positions=placed(offsets, padding),
        segments=placed(ordinals[:, None], np.zeros_like(nothing)),
        targets=placed(joined[:, 1:], nothing),
        counted=placed(counted, np.zeros_like(nothing)).astype(bool),
    )


def _joined(
    prompts: Sequences, completions: Sequences, start_token: int
) -> tuple[Int[np.ndarray, "B L"], Int[np.ndarray, " B"], Int[np.ndarray, " B"]]:
    """Prompt and completion of each example, and where the completion begins and ends."""
    prompt_tokens, prompt_lengths = (np.asarray(part) for part in prompts)
    tokens, lengths = (np.asarray(part) for part in completions)
    begins = np.maximum(prompt_lengths, 1)
    ends = begins + lengths
    width = max(1, prompt_tokens.shape[1]) + tokens.shape[1] + 1
    joined = np.full((len(tokens), width), PAD)
    joined[:, 0] = start_token
    read = np.arange(prompt_tokens.shape[1])[None] < prompt_lengths[:, None]
    joined[:, : prompt_tokens.shape[1]][read] = prompt_tokens[read]
    places = np.arange(tokens.shape[1])[None]
    written = places < lengths[:, None]
    example = np.broadcast_to(np.arange(len(tokens))[:, None], written.shape)
    joined[example[written], (begins[:, None] + places)[written]] = tokens[written]
    return joined, begins, ends


def _places(
    lengths: Int[np.ndarray, " B"], num_rows: int, width: int
) -> tuple[Int[np.ndarray, " B"], Int[np.ndarray, " B"]]:
    """Row and first column of each example."""
    rows, columns = np.zeros_like(lengths), np.zeros_like(lengths)
    row = column = 0
    for example, length in enumerate(lengths):
        if column + length > width:
            row, column = row + 1, 0
        if length > width or row >= num_rows:
            raise InvalidInput(
                f"example {example} of {length} tokens: does not fit into {num_rows} rows of {width}, "
                "give more of them or longer ones"
            )
        rows[example], columns[example] = row, column
        column += length
    return rows, columns

"""Sudoku of side four: every row, column and quarter has 1 to 4 once. There are 288 full grids, so everything is exact.

Prompt: the sixteen cells row by row, a digit or `_`, and `=`. Completion: the sixteen digits of the full grid and eos. Puzzles have
six clues and one solution or several, any of which is right. How many solutions agree with a prefix is a count over the 288 grids: an
exact step verifier, where the rules alone would see most mistakes too late.

A problem is a puzzle up to the names of its digits, its guises are the 24 ways to name them. Turned and reflected puzzles are other
problems. The law to train on is uniform over the solutions.
"""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Key, UInt64

from models.tasks.problems import Problems
from models.tasks.task import ABSTAIN, Sequences, Task, tokens_at_width

SIDE = 4
NUM_CELLS = SIDE * SIDE
NUM_CLUES = 6
OPEN, EQUALS, EOS = 5, 6, 7  # digit d is token d
LABELS = ("<pad>", *"1234", "_", "=", "<eos>")
LENGTH = NUM_CELLS + 1  # of prompts and of completions


@cache
def full_grids() -> Int32[np.ndarray, "288 16"]:
    """All full grids.

    Returns:
        [288, 16] digits row by row, in lexicographic order; read-only.
    """
    grids: list[tuple[int, ...]] = [()]
    for cell in range(NUM_CELLS):
        seen = [other for other in range(cell) if _sees(cell, other)]
        grids = [
            (*grid, digit)
            for grid in grids
            for digit in range(1, SIDE + 1)
            if all(grid[other] != digit for other in seen)
        ]
    found = np.array(grids, np.int32)
    found.flags.writeable = False
    return found


def sudoku() -> Task:
    """Make the task.

    Returns:
        The task.
    """
    return Task(
        name="sudoku-4",
        labels=LABELS,
        eos=EOS,
        max_prompt_length=LENGTH,
        horizon=LENGTH,
        prompt_form="16 cells, each 1 to 4 or _, =",
        problems=_problems(),
        is_prompt=jax.jit(is_prompt),
        targets=jax.jit(targets),
        verify=jax.jit(verify),
        correct_so_far=jax.jit(correct_so_far),
        answers=jax.jit(answers),
    )


def is_prompt(prompts: Sequences) -> Bool[Array, " B"]:
    """Whether each prompt is sixteen cells and =; it need not have a solution.

    Args:
        prompts: of B rows.

    Returns:
        [B].
    """
    tokens = tokens_at_width(prompts, LENGTH)
    is_cell = (tokens >= 1) & (tokens <= OPEN)
    return (prompts.lengths == LENGTH) & is_cell[:, :-1].all(axis=-1) & (tokens[:, -1] == EQUALS)


def agrees_with_clues(prompts: Sequences) -> Bool[Array, "B 288"]:
    """Which full grids solve each puzzle.

    Args:
        prompts: of B rows.

    Returns:
        [B, 288] in the order of `full_grids`.
    """
    clues = tokens_at_width(prompts, NUM_CELLS)[:, None]
    return ((clues == OPEN) | (clues == jnp.asarray(full_grids())[None])).all(axis=-1)


def num_solutions(prompts: Sequences, prefixes: Sequences) -> Int32[Array, " B"]:
    """How many right completions begin with each prefix.

    Args:
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B] exact.
    """
    return (agrees_with_clues(prompts) & _begun_grids(prefixes)).sum(axis=-1, dtype=jnp.int32)


def targets(keys: Key[Array, " B"], prompts: Sequences) -> Sequences:
    """Draw a solution of each puzzle, all of them equally likely.

    Args:
        keys: [B] consumed.
        prompts: of B rows, each with a solution.

    Returns:
        [B, 17] completions.
    """
    num_right = jnp.cumsum(agrees_with_clues(prompts), axis=-1)
    rank = jax.vmap(lambda key, num: jax.random.randint(key, (), 0, num))(keys, num_right[:, -1])
    chosen = jnp.argmax(num_right > rank[:, None], axis=-1)
    tokens = jnp.pad(jnp.asarray(full_grids())[chosen], ((0, 0), (0, 1)), constant_values=EOS)
    return Sequences(tokens, jnp.full(len(tokens), LENGTH, jnp.int32))


def verify(prompts: Sequences, completions: Sequences) -> Bool[Array, " B"]:
    """Whether each completion solves the puzzle and ends.

    Args:
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B].
    """
    return (completions.lengths == LENGTH) & correct_so_far(prompts, completions)


def correct_so_far(prompts: Sequences, prefixes: Sequences) -> Bool[Array, " B"]:
    """Whether some solution begins with each prefix.

    Args:
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B].
    """
    return num_solutions(prompts, prefixes) > 0


def answers(prompts: Sequences, completions: Sequences) -> Int32[Array, " B"]:
    """Which full grid each completion is, whether or not it agrees with the clues.

    Args:
        prompts: not looked at.
        completions: of B rows.

    Returns:
        [B] its place in `full_grids`; ABSTAIN if it breaks the rules, is not full or does not end.
    """
    del prompts
    is_grid = _begun_grids(completions) & (completions.lengths == LENGTH)[:, None]
    place = jnp.argmax(is_grid, axis=-1).astype(jnp.int32)
    return jnp.where(is_grid.any(axis=-1), place, ABSTAIN)


def _sees(cell: int, other: int) -> bool:
    """Whether two cells are in one row, column or quarter."""
    (row, column), (other_row, other_column) = divmod(cell, SIDE), divmod(other, SIDE)
    return (
        row == other_row
        or column == other_column
        or (row // 2, column // 2) == (other_row // 2, other_column // 2)
    )


def _begun_grids(prefixes: Sequences) -> Bool[Array, "B 288"]:
    """Which full grids, eos behind them, begin with each prefix."""
    tokens = jnp.asarray(np.pad(full_grids(), ((0, 0), (0, 1)), constant_values=EOS))
    inside = jnp.arange(LENGTH)[None] < prefixes.lengths[:, None]
    agree = tokens_at_width(prefixes, LENGTH)[:, None] == tokens[None]
    return (agree | ~inside[:, None]).all(axis=-1) & (prefixes.lengths <= LENGTH)[:, None]


def _problems() -> Problems:
    """Different puzzles, their digits named in the order in which they appear; a variant renames them."""
    clue_cells = np.array(list(itertools.combinations(range(NUM_CELLS), NUM_CLUES)))
    # One grid of each 24 that differ in names will do: the first row is 1 2 3 4.
    grids = full_grids()
    grids = grids[(grids[:, :SIDE] == np.arange(1, SIDE + 1)).all(axis=1)]
    clues = grids[:, clue_cells].reshape(-1, NUM_CLUES)
    names = np.zeros((len(clues), SIDE + 1), np.int64)
    num_named = np.zeros(len(clues), np.int64)
    rows = np.arange(len(clues))
    for place in range(NUM_CLUES):
        digit = clues[:, place]
        is_new = names[rows, digit] == 0
        num_named += is_new
        names[rows, digit] = np.where(is_new, num_named, names[rows, digit])
    cells = np.tile(clue_cells, (len(grids), 1))
    puzzles = np.full((len(clues), NUM_CELLS), OPEN)
    np.put_along_axis(puzzles, cells, np.take_along_axis(names, clues, axis=1), axis=1)
    puzzles = np.unique(puzzles, axis=0)
    renamings = np.array(
        [(0, *order, OPEN) for order in itertools.permutations(range(1, SIDE + 1))]
    )

    def write(
        kinds: Int[np.ndarray, " B"],
        indices: UInt64[np.ndarray, " B"],
        variants: UInt64[np.ndarray, " B"],
    ) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
        del kinds
        renaming = renamings[variants % np.uint64(len(renamings))]
        cells = np.take_along_axis(renaming, puzzles[indices], axis=1)
        tokens = np.pad(cells, ((0, 0), (0, 1)), constant_values=EQUALS)
        return tokens, np.full(len(tokens), LENGTH)

    return Problems((len(puzzles),), write)

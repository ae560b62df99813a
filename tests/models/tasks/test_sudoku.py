"""Sudoku against its rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tasks.registry import task
from models.tasks.sudoku import full_grids, num_solutions
from models.tasks.task import ABSTAIN, Sequences
from models.tasks.text import parse_prompts, render
from tests.stat_asserts import assert_counts, assert_rejected

SUDOKU = task("sudoku-4")


def obeys_rules(grid: list[int]) -> bool:
    """Whether sixteen digits have 1 to 4 in every row, column and quarter."""
    rows = [{4 * i + j for j in range(4)} for i in range(4)]
    columns = [{4 * j + i for j in range(4)} for i in range(4)]
    quarters = [{a, a + 1, a + 4, a + 5} for a in (0, 2, 8, 10)]
    return all({grid[c] for c in cells} == {1, 2, 3, 4} for cells in rows + columns + quarters)


def puzzle(*clues: tuple[int, int]) -> Sequences:
    """A prompt with clues at cells."""
    cells = ["_"] * 16
    for cell, digit in clues:
        cells[cell] = str(digit)
    return parse_prompts(SUDOKU, [" ".join([*cells, "="])])


def repeat(sequences: Sequences, num: int) -> Sequences:
    """One row several times."""
    return Sequences(jnp.tile(sequences.tokens, (num, 1)), jnp.tile(sequences.lengths, num))


def canonical(cells: np.ndarray) -> tuple[int, ...]:
    """A puzzle with its digits named in the order in which they appear."""
    names: dict[int, int] = {5: 5}
    return tuple(names.setdefault(int(c), len(names)) for c in cells)


def test_there_are_288_grids_and_all_obey_the_rules() -> None:
    grids = full_grids()
    assert grids.shape == (288, 16)
    assert len(np.unique(grids, axis=0)) == 288
    assert all(obeys_rules(grid) for grid in grids.tolist())
    assert grids.tolist() == sorted(grids.tolist())


def test_verdicts_are_the_rules_of_the_game() -> None:
    prompts = SUDOKU.prompts("test", 150, seed=0)
    right = SUDOKU.targets(jax.random.split(jax.random.key(0), 150), prompts)
    tokens = np.asarray(right.tokens).copy()
    generator = np.random.default_rng(0)
    for row in range(50, 100):
        # Another full grid: obeys the rules, mostly not the clues.
        tokens[row, :16] = full_grids()[generator.integers(288)]
    for row in range(100, 150):
        tokens[row, generator.integers(16)] = generator.integers(1, 5)
    clues = np.asarray(prompts.tokens)[:, :16]
    legal = np.array([obeys_rules(row[:16]) for row in tokens.tolist()])
    agrees = ((clues == 5) | (clues == tokens[:, :16])).all(axis=1)
    completions = Sequences(jnp.asarray(tokens), right.lengths)
    assert agrees[:50].all()
    assert 0 < (legal & ~agrees).sum()
    assert 0 < (agrees & ~legal).sum()
    np.testing.assert_array_equal(SUDOKU.verify(prompts, completions), legal & agrees)
    places = np.asarray(SUDOKU.answers(prompts, completions))
    np.testing.assert_array_equal(places == ABSTAIN, ~legal)
    np.testing.assert_array_equal(full_grids()[places[legal]], tokens[legal, :16])


@pytest.mark.parametrize("clues", [((0, 1), (5, 2)), ((0, 1), (3, 2), (9, 3), (15, 1)), ()])
def test_solutions_that_begin_with_a_prefix_are_counted(clues: tuple[tuple[int, int], ...]) -> None:
    grids = full_grids()
    agrees = np.ones(288, bool)
    for cell, digit in clues:
        agrees &= grids[:, cell] == digit
    generator = np.random.default_rng(1)
    rows = grids[generator.integers(288, size=60)]
    rows = np.concatenate([rows, grids[agrees][:20], generator.integers(1, 5, (20, 16))])
    lengths = generator.integers(0, 17, len(rows))
    expected = [
        (agrees & (grids[:, :length] == row[:length]).all(axis=1)).sum()
        for row, length in zip(rows, lengths, strict=True)
    ]
    prefixes = Sequences(jnp.asarray(rows, jnp.int32), jnp.asarray(lengths, jnp.int32))
    prompts = repeat(puzzle(*clues), len(rows))
    np.testing.assert_array_equal(num_solutions(prompts, prefixes), expected)
    np.testing.assert_array_equal(SUDOKU.correct_so_far(prompts, prefixes), np.array(expected) > 0)


def test_problems_have_six_clues_and_no_renaming_is_on_the_other_side() -> None:
    sides: list[set[tuple[int, ...]]] = []
    for prompts in (
        SUDOKU.prompts("train", 2000, seed=0),
        SUDOKU.prompts("test", 2000, seed=0),
    ):
        cells = np.asarray(prompts.tokens)[:, :16]
        np.testing.assert_array_equal((cells != 5).sum(axis=1), 6)
        none = Sequences(jnp.zeros((2000, 0), jnp.int32), jnp.zeros(2000, jnp.int32))
        solutions = np.asarray(num_solutions(prompts, none))
        assert solutions.min() == 1
        assert (solutions > 1).any()
        sides.append({canonical(row) for row in cells})
        assert len(sides[-1]) == 2000
        # Digits are renamed at random: the first clue is any of the four.
        first = cells[np.arange(2000), (cells != 5).argmax(axis=1)]
        assert np.bincount(first, minlength=5)[1:].min() > 400
    assert not sides[0] & sides[1]


def test_every_puzzle_of_six_clues_is_a_problem() -> None:
    # By orbits: renaming moves a puzzle with k different clues through 4! / (4 - k)! puzzles.
    tokens, _ = SUDOKU.problems.write(
        np.zeros(SUDOKU.problems.sizes[0], np.int64),
        np.arange(SUDOKU.problems.sizes[0], dtype=np.uint64),
        np.zeros(SUDOKU.problems.sizes[0], np.uint64),
    )
    mask = (tokens[:, :16] != 5) @ (1 << np.arange(16))
    cells = np.array([0, 2, 5, 7, 10, 13])
    here = tokens[mask == (1 << cells).sum()][:, cells]
    orbit = np.array([24, 24, 12, 4])[4 - np.array([len(set(row)) for row in here.tolist()])]
    assert orbit.sum() == len(np.unique(full_grids()[:, cells], axis=0))


def solution_counts() -> tuple[np.ndarray, np.ndarray]:
    """Draws of each solution of one puzzle, and the law of filling cell after cell with any digit that can go on."""
    num, prompts = 6000, puzzle((0, 1), (5, 2), (6, 1))
    grids = full_grids()
    agrees = (grids[:, 0] == 1) & (grids[:, 5] == 2) & (grids[:, 6] == 1)
    solutions = grids[agrees]
    drawn = SUDOKU.targets(jax.random.split(jax.random.key(2), num), repeat(prompts, num))
    matches = (np.asarray(drawn.tokens)[:, None, :16] == solutions[None]).all(axis=-1)
    assert (matches.sum(axis=1) == 1).all()
    by_cell = np.ones(len(solutions))
    for row, grid in enumerate(solutions):
        for cell in range(16):
            live = solutions[(solutions[:, :cell] == grid[:cell]).all(axis=1)]
            by_cell[row] /= len(np.unique(live[:, cell]))
    return matches.sum(axis=0), by_cell


def test_solutions_are_equally_likely_to_be_trained_on() -> None:
    counts, by_cell = solution_counts()
    uniform = np.full(len(counts), 1 / len(counts))
    assert len(counts) > 3
    assert_counts(counts, uniform)
    assert by_cell.sum() == pytest.approx(1)
    assert_rejected(lambda: assert_counts(counts, by_cell))


def test_a_puzzle_is_shown_row_by_row() -> None:
    assert render(SUDOKU, puzzle((0, 1), (15, 4))) == ["1 _ _ _ _ _ _ _ _ _ _ _ _ _ _ 4 ="]

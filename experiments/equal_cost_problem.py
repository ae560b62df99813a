"""What methods are compared on: the truth of a small model, and the errors of one method at one size.

Errors are those of E_pi[length] and P_pi(first token = token 0), and the total variation between the law of one row that the method
hands out and the target. Weighted rows are not draws: theirs is one row drawn in proportion to the weights. Where no exact law of
that row is at hand, the total variation is that of the replicates' empirical law: too large, by `tv_noise` for exact draws.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64, Int, Int64

from experiments import tables
from theory.exact.context_table import ContextTable
from theory.exact.sequence_space import SequenceSpace, sequence_space, target_law

EXACT, WEIGHTED, APPROXIMATE = "exact draws", "weighted rows", "approximate draws"
"""What the rows of a method are."""

SCHEMA: pa.Schema = tables.schema(
    model=str, alpha=float, method=str, kind=str, size=int,
    generated_tokens=float, prefill_tokens=float, all_tokens=float, model_calls=float,
    rmse_length=float, rmse_length_error=float, rmse_first_token=float, rmse_first_token_error=float,
    tv=float, tv_is_exact=bool, tv_noise=float, replicates=int,
)  # fmt: skip


class Problem(NamedTuple):
    """A small model and the truth about it.

    Attributes:
        name: of the model.
        table: the model; its sequences can be listed.
        alpha: target exponent.
        space: its M sequences.
        target: [M] the power law.
        lengths: [M] tokens.
        first: [M] whether the first token is token 0.
    """

    name: str
    table: ContextTable
    alpha: float
    space: SequenceSpace
    target: Float64[np.ndarray, " M"]
    lengths: Int64[np.ndarray, " M"]
    first: Bool[np.ndarray, " M"]

    @property
    def truth(self) -> tuple[float, float]:
        """E_pi[length] in tokens, and P_pi(first token = token 0)."""
        return float(self.target @ self.lengths), float(self.target @ self.first)


class Outcome(NamedTuple):
    """R replicates of a method at one size.

    Attributes:
        size: rows, accepted rows or moves.
        cost: of one replicate, by column of the ledger.
        length: [R] estimates of E_pi[length].
        first: [R] estimates of P_pi(first token = token 0).
        rows: [R] one row of each replicate, as an index into the sequences.
        law: [M] exact law of that row, where it is known.
    """

    size: int
    cost: dict[str, float]
    length: Float64[np.ndarray, " R"]
    first: Float64[np.ndarray, " R"]
    rows: Int64[np.ndarray, " R"]
    law: Float64[np.ndarray, " M"] | None


class Sizes(NamedTuple):
    """How far the methods go, and how often.

    Attributes:
        rows: of the weighted populations, ascending.
        accepted: rows of rejection, ascending.
        moves: of the chains, ascending.
        replicates: R.
        seed: of the run.
    """

    rows: tuple[int, ...]
    accepted: tuple[int, ...]
    moves: tuple[int, ...]
    replicates: int
    seed: int


def make_problem(name: str, table: ContextTable, alpha: float) -> Problem:
    """List the sequences and their probabilities.

    Args:
        name: of the model.
        table: the model.
        alpha: target exponent.

    Returns:
        The problem.

    Raises:
        InvalidInput: too many sequences.
    """
    space = sequence_space(table, alpha)
    lengths = np.asarray(space.records.lengths)
    first = space.tokens[:, 0] == 0
    return Problem(name, table, alpha, space, target_law(space, alpha), lengths, first)


def indices(
    problem: Problem, tokens: Int[np.ndarray, "R T"], lengths: Int[np.ndarray, " R"]
) -> Int64[np.ndarray, " R"]:
    """Which of the sequences each row is.

    Args:
        problem: with the list.
        tokens: [R, T] padded with 0.
        lengths: [R].

    Returns:
        [R].
    """
    space = problem.space
    base = space.tokens.max() + 2
    places = base ** np.arange(space.tokens.shape[1])

    def code(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        inside = np.arange(tokens.shape[1]) < lengths[:, None]
        return np.where(inside, tokens + 1, 0) @ places

    listed = code(space.tokens, problem.lengths)
    order = np.argsort(listed)
    return order[np.searchsorted(listed[order], code(np.asarray(tokens), np.asarray(lengths)))]


def row_of(problem: Problem, method: str, kind: str, outcome: Outcome) -> dict[str, Any]:
    """One row of the table.

    Args:
        problem: with the truth.
        method: its name.
        kind: what its rows are.
        outcome: at one size.

    Returns:
        By the columns of `SCHEMA`.
    """
    (length, length_error), (first, first_error) = (
        rmse(estimates, truth)
        for estimates, truth in zip((outcome.length, outcome.first), problem.truth, strict=True)
    )
    tv, noise = _total_variation(problem, outcome)
    cost = outcome.cost
    return {
        "model": problem.name,
        "alpha": problem.alpha,
        "method": method,
        "kind": kind,
        "size": outcome.size,
        **cost,
        "all_tokens": cost["generated_tokens"] + cost["prefill_tokens"],
        "rmse_length": length,
        "rmse_length_error": length_error,
        "rmse_first_token": first,
        "rmse_first_token_error": first_error,
        "tv": tv,
        "tv_is_exact": outcome.law is not None,
        "tv_noise": noise,
        "replicates": outcome.length.size,
    }


def rmse(estimates: Float64[np.ndarray, " R"], truth: float) -> tuple[float, float]:
    """Root mean squared error with its standard error, by the delta method.

    Args:
        estimates: [R] independent.
        truth: what they aim at.

    Returns:
        Both; 0 and 0 where every estimate is right.
    """
    squares = (np.asarray(estimates) - truth) ** 2
    root = float(np.sqrt(squares.mean()))
    if root == 0:
        return 0.0, 0.0
    return root, float(squares.std(ddof=1) / np.sqrt(squares.size) / (2 * root))


def _total_variation(problem: Problem, outcome: Outcome) -> tuple[float, float]:
    """The total variation, and what the empirical law of as many exact draws would show."""
    target = problem.target
    if outcome.law is not None:
        return float(np.abs(outcome.law - target).sum() / 2), 0.0
    num_rows = outcome.rows.size
    shares = np.bincount(outcome.rows, minlength=target.size) / num_rows
    # E|X| = sqrt(2 / pi) sigma for the normal law that a share of R draws is near.
    noise = np.sqrt(2 / np.pi * target * (1 - target) / num_rows)
    return float(np.abs(shares - target).sum() / 2), float(noise.sum() / 2)

"""What a sampler takes and returns: prompts, and rows on the host with their log probabilities summed over tokens.

Sums are taken in float64 from the float32 numbers that were recorded token by token, so a row of a thousand tokens loses nothing.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float64, Int, Int32, Key

from experiments.samplers.settings import Settings
from theory.generation import Generation
from theory.ledger import Ledger
from theory.protocols import SequenceModel


class PromptBatch(NamedTuple):
    """What the rows continue.

    Attributes:
        tokens: [B, P] right-padded; P may be 0.
        lengths: [B] tokens of each prompt.
    """

    tokens: Int[Array, "B P"]
    lengths: Int[Array, " B"]


class Rows(NamedTuple):
    """R trajectories; a population of N particles gives N of them, every other id one. Natural logarithms.

    Attributes:
        tokens: [R, T] generated tokens, 0 past a row's length.
        lengths: [R] eos included.
        ended: [R] whether the last token is an eos; otherwise the row is truncated at the horizon.
        base_logp: [R] log p of the row at temperature 1.
        behavior_logp: [R] log q of the rule that drew the whole row; None where no such density is known.
        proposal_logp: [R] log q of the proposal inside the kernel or filter; None where it is the behaviour.
        log_z_sum: [R] sum over tokens of log z at the target's alpha; NaN where that alpha is infinite.
        log_weight: [R] unnormalised: exp of it, averaged over a population or over draws, is unbiased for Z; None for unweighted rows.
        log_Z_hat: [R] log of the estimate of Z by the row's population; None outside populations.
        ledger: what the batch spent; scoring rows for the record only is no part of it.
    """

    tokens: Int32[np.ndarray, "R T"]
    lengths: Int32[np.ndarray, " R"]
    ended: Bool[np.ndarray, " R"]
    base_logp: Float64[np.ndarray, " R"]
    behavior_logp: Float64[np.ndarray, " R"] | None
    proposal_logp: Float64[np.ndarray, " R"] | None
    log_z_sum: Float64[np.ndarray, " R"]
    log_weight: Float64[np.ndarray, " R"] | None
    log_Z_hat: Float64[np.ndarray, " R"] | None
    ledger: Ledger


@runtime_checkable
class Sampler(Protocol):
    """Draws rows; compiles what it runs."""

    def __call__(
        self,
        key: Key[Array, ""],
        model: SequenceModel,
        prompts: PromptBatch,
        ids: Int[Array, " B"],
        settings: Settings,
    ) -> Rows:
        """Draw.

        Args:
            key: of the run; not consumed.
            model: of the tokens.
            prompts: of the B ids.
            ids: [B] global ids: of rows, chains or populations. Neighbours, ascending.
            settings: made by `experiments.samplers.catalogue.make_settings` for this method.

        Returns:
            The rows, id after id.

        Raises:
            InvalidInput: the run came to nothing that can be called a draw; names the row, chain or population.
        """
        ...


def drawn_rows(generation: Generation, alpha: float) -> Rows:
    """Rows whose recorded log q is that of the rule that drew them.

    Args:
        generation: finished rows, log z recorded at `alpha`.
        alpha: exponent of the target; at 1 every log z is exactly 0.

    Returns:
        The rows, unweighted.
    """
    now = jax.device_get(generation.trajectories)
    log_z_sum = _sum(now.log_z) if alpha != 1.0 else np.zeros(len(now.lengths))
    return Rows(
        np.asarray(now.tokens),
        np.asarray(now.lengths),
        np.asarray(now.ended),
        _sum(now.log_p),
        _sum(now.log_q),
        None,
        log_z_sum,
        None,
        None,
        generation.ledger,
    )


def proposed_rows(generation: Generation, alpha: float) -> Rows:
    """Rows whose recorded log q is that of a proposal, of which something was then kept or resampled.

    Args:
        generation: finished rows, log z recorded at `alpha`.
        alpha: exponent of the target.

    Returns:
        The rows, unweighted, without a behaviour density.
    """
    rows = drawn_rows(generation, alpha)
    return rows._replace(behavior_logp=None, proposal_logp=rows.behavior_logp)


def first_rows(rows: Rows, num_rows: int) -> Rows:
    """The first of some rows.

    Args:
        rows: of a batch.
        num_rows: how many to keep.

    Returns:
        Those; what was spent is that of the batch.
    """

    def head(column: Any) -> Any:
        return None if column is None else column[:num_rows]

    fields = {name: head(column) for name, column in rows._asdict().items() if name != "ledger"}
    return rows._replace(**fields)


def _sum(numbers: np.ndarray) -> Float64[np.ndarray, " R"]:
    return np.asarray(numbers).sum(axis=1, dtype=np.float64)

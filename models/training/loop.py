"""The loop over steps, as a stream of states."""

from collections.abc import Callable, Iterator

from models.training.packing import PackedRows
from models.training.update import StepInfo, TrainingState, Update


def training_steps(
    update: Update,
    batch_at: Callable[[int], PackedRows],
    state: TrainingState,
    num_steps: int,
) -> Iterator[tuple[TrainingState, StepInfo]]:
    """Train from where a state stands to the end.

    Args:
        update: a step; consumes the state that it is given.
        batch_at: the examples of each step, by its number.
        state: of the steps taken so far; consumed.
        num_steps: of the whole training.

    Yields:
        The state after each step, valid until the next one is asked for, and what the step shows.
    """
    for step in range(int(state.step), num_steps):
        state, info = update(state, batch_at(step))
        yield state, info

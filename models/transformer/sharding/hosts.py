"""Several processes that run one program, as on a cluster or a TPU slice of several hosts."""

import jax
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from theory.errors import InvalidInput


def initialise_hosts(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Let the processes find each other. The first thing a program does with JAX, before it asks for a device.

    Args:
        coordinator: host:port of process 0, the same everywhere. None with the other two: read from SLURM, Open MPI or the TPU slice.
        num_processes: how many there are.
        process_id: this one, from 0.

    Raises:
        InvalidInput: some of the three are given and some are not.
    """
    given = [argument is not None for argument in (coordinator, num_processes, process_id)]
    if any(given) and not all(given):
        raise InvalidInput(
            "coordinator, num_processes and process_id: give all three, or none where a launcher sets them"
        )
    jax.distributed.initialize(coordinator, num_processes, process_id)


def writes_files() -> bool:
    """Whether this is process 0, the only one that writes.

    Returns:
        True without `initialise_hosts`.
    """
    return jax.process_index() == 0


def gather_rows(rows: PyTree) -> PyTree:
    """All rows on every host. All processes call it together.

    Args:
        rows: pytree of arrays of `shard_rows`; every device holds all of them for a moment, so tokens and weights but no caches.

    Returns:
        NumPy arrays.
    """
    return multihost_utils.process_allgather(rows, tiled=True)

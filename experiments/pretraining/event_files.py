"""Curves for TensorBoard."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

STEP = "step"


class EventFile:
    """One event file that holds every step once, however often training was interrupted."""

    def __init__(self, folder: Path) -> None:
        """Begin a new file in place of those of earlier attempts, whose steps are written again.

        Args:
            folder: of this run alone.
        """
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = SummaryWriter(str(folder))

    def write(self, row: Mapping[str, Any]) -> None:
        """Write the numbers of one step.

        Args:
            row: its number under "step", and the others by name.
        """
        for name, value in row.items():
            if name != STEP:
                self._writer.add_scalar(name, value, row[STEP])

    def close(self) -> None:
        """Write out what is left."""
        self._writer.close()

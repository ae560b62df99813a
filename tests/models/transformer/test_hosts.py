"""Two processes of two devices draw what one process draws."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.transformer.sharding import initialise_hosts, writes_files
from tests.models.transformer.sharded import ROWS, ancestral, divisible, in_batches
from theory.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.multiprocess
def test_two_processes_draw_the_rows_of_one_bit_for_bit(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = tmp_path / "rows.npz"
    command = [sys.executable, "-m", "tests.models.transformer.one_process", str(port), "2"]
    running = [
        subprocess.Popen(
            [*command, str(process), str(file)], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        for process in range(2)
    ]
    said = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    alone = in_batches(lambda *a: ancestral(*a).trajectories, 4, divisible(), ROWS)
    with np.load(file) as drawn:
        for name, values in alone._asdict().items():
            np.testing.assert_array_equal(drawn[name], values, name)


def test_one_process_needs_no_others() -> None:
    assert writes_files()
    with pytest.raises(InvalidInput, match="give all three, or none"):
        initialise_hosts("127.0.0.1:1", 2)

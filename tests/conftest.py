"""What holds in every test: strict JAX, four devices, one hypothesis profile, one false-alarm budget."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import jax
import pytest

from tests.stat_asserts import LEVEL, MAX_ASSERTIONS, Budget

ROOT = Path(__file__).resolve().parent.parent

os.environ["MPLBACKEND"] = "Agg"

# Before the first computation: the number of devices is fixed when the backend starts.
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("house", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.load_profile("house")

ASSERTIONS_USED = pytest.StashKey[int]()


# Every compiled program holds some of the 65,530 memory maps that Linux allows a process by default; without them JAX crashes.
MAPS = Path("/proc/self/maps")
MOST_MAPS = 30_000


@pytest.fixture(autouse=True, scope="module")
def _programs_are_let_go() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Forget compiled programs between modules once there are many; they come back from the cache on disk."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def _x64_stays_as_it_was() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Fail a test that leaves double precision switched on (or off) for those after it."""
    before = jax.config.read("jax_enable_x64")
    yield
    after = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", before)
    assert after == before, "the test changed jax_enable_x64: use `with jax.enable_x64(True):`"


@pytest.fixture(scope="session")
def reference_cases() -> list[dict[str, Any]]:
    """Exact values of small models, computed in rational arithmetic by a program that shares no code with ours."""
    folder = ROOT / "tests" / "data" / "reference"
    paths = sorted(folder.glob("case-*.json"))
    if not paths:
        pytest.fail(f"no reference cases in {folder.relative_to(ROOT)}: restore them from git")
    return [json.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="session")
def shared_data_dir() -> Path:
    """Rollouts that other people published, beside the repository; not part of it."""
    folder = ROOT.parent / "shared" / "data"
    if os.environ.get("CI") and folder.parent.is_dir():
        assert folder.is_dir(), (
            f"{folder} is gone: the tests that read it would be skipped in silence"
        )
    if not folder.is_dir():
        pytest.skip("needs ../shared/data, which is not part of the repository")
    return folder


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add up what the worker processes of pytest-xdist used of the budget."""
    stash = node.config.stash
    used = getattr(node, "workeroutput", {}).get("assertions_used", 0)
    stash[ASSERTIONS_USED] = stash.get(ASSERTIONS_USED, 0) + used


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that made more statistical assertions than the level of each one allows for."""
    workeroutput: dict[str, int] | None = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput["assertions_used"] = Budget.used
        return
    used = session.config.stash.get(ASSERTIONS_USED, 0) + Budget.used
    session.config.stash[ASSERTIONS_USED] = used
    if used > MAX_ASSERTIONS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of the budget was used."""
    used = terminalreporter.config.stash.get(ASSERTIONS_USED, 0)
    line = f"statistical assertions: {used} of at most {MAX_ASSERTIONS}, level {LEVEL:.0e} each"
    terminalreporter.write_line(line, red=used > MAX_ASSERTIONS)

"""Peers that cannot live beside our versions: an environment of their own, and a process that answers line by line.

An environment is made on first use in the user's cache folder, under a name that holds a digest of what is in it, and is kept. A peer's
program reads its problem from the first line of its input (JSON); for each further line, a number of calls, it makes
them and answers with one line: {"seconds": per call, ...}. So its timings leave out what it takes to talk to it, and can be interleaved with ours.
"""

import hashlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.progress import say
from theory.errors import InvalidInput


def cache_folder() -> Path:
    """Where environments of peers are kept.

    Returns:
        The project's part of $XDG_CACHE_HOME, or of ~/.cache.
    """
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "rolloutlab" / "peers"


def peer_python(name: str, requirements: tuple[str, ...]) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there.

    Args:
        name: of the peer.
        requirements: what pip is to install.

    Returns:
        Its path.

    Raises:
        InvalidInput: the packages could not be installed.
    """
    contents = repr((requirements, sys.version_info[:2]))
    digest = hashlib.sha256(contents.encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    complete = folder / "complete"
    if not complete.exists():
        say(f"installing {name} into {folder}, once")
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *requirements]
        done = subprocess.run(install, check=False, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise InvalidInput(
                f"peer {name}: pip could not install {' '.join(requirements)} ({said}); check the network and run again"
            )
        complete.touch()
    return python


@contextmanager
def running_peer(
    python: Path, program: Path, problem: Mapping[str, Any]
) -> Generator[Callable[[int], dict[str, Any]]]:
    """Start a peer and hand it its problem; it ends with the block.

    Args:
        python: of its environment.
        program: what it runs.
        problem: anything that JSON can hold.

    Yields:
        A function that has a number of calls made and returns the answer; it raises RuntimeError where the peer has ended.
    """
    process = subprocess.Popen(
        [str(python), str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    to_peer, from_peer = process.stdin, process.stdout
    assert to_peer is not None and from_peer is not None

    def ask(calls: int) -> dict[str, Any]:
        print(calls, file=to_peer, flush=True)
        line = from_peer.readline()
        if not line:
            raise RuntimeError(f"the peer ended with exit status {process.wait()}")
        return json.loads(line)

    with process:  # closes its input, at whose end it stops
        print(json.dumps(problem), file=to_peer, flush=True)
        yield ask

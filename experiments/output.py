"""Where results go: a file that is replaced as a whole, or stdout.

A destination is a path or `-` for stdout. A file appears complete or not at all, so a reader never meets half a result,
whatever kills the writer.
"""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from theory.errors import InvalidInput

STDOUT = "-"


def check_writable(destination: str | Path) -> None:
    """Find out, before the long work starts, whether a result can be written.

    Args:
        destination: a file, or `-` for stdout.

    Raises:
        InvalidInput: its folder is missing, it is a folder, or nothing may be written there.
    """
    if destination == STDOUT:
        return
    if not str(destination):
        raise InvalidInput("output '': is empty, give the name of a file or - for stdout")
    path = _resolve(destination)
    if _is_special(path):  # to open a pipe as a trial would end it for its reader
        if not os.access(path, os.W_OK):
            raise InvalidInput(f"output '{destination}': cannot be written, give another place")
        return
    if os.path.isdir(path):
        raise InvalidInput(f"output '{destination}': is a folder, give the name of a file")
    if not os.path.isdir(path.parent):
        raise InvalidInput(f"output '{destination}': its folder does not exist, create it first")
    target = _partial(path)
    try:
        target.open("ab").close()
    except OSError as error:
        raise InvalidInput(
            f"output '{destination}': cannot be written ({error.strerror}), give another place"
        ) from error
    target.unlink()


def check_keeps(destination: str | Path, source: str | Path) -> None:
    """Refuse to write a result over what it is computed from.

    Args:
        destination: a file, or `-` for stdout.
        source: a file or the folder of a model that is read, or a name that is neither.

    Raises:
        InvalidInput: they are one file, or the destination is a file of the folder.
    """
    if destination != STDOUT and source and os.path.isdir(source) and os.path.isfile(destination):
        found, folder = Path(os.path.realpath(destination)), Path(os.path.realpath(source))
        if folder in found.parents:
            raise InvalidInput(
                f"output '{destination}': is a file of the input '{source}', give another place"
            )
    both = destination != STDOUT and os.path.isfile(destination) and os.path.isfile(source)
    if both and os.path.samefile(destination, source):
        raise InvalidInput(f"output '{destination}': is the input itself, give another place")


def make_folder(folder: Path) -> Path:
    """Make a folder for results, with its parents.

    Args:
        folder: may exist already.

    Returns:
        The same folder.

    Raises:
        InvalidInput: it cannot be made, or nothing may be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"folder '{folder}': cannot be made ({error.strerror}), give another place"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"folder '{folder}': no permission to write there, give another place")
    return folder


@contextlib.contextmanager
def open_output(destination: str | Path) -> Generator[BinaryIO, None, None]:
    """Open a destination for one whole result.

    What was there before stays until the block ends without an exception, and is then replaced in one step. A device or
    a pipe (`/dev/null`, `/dev/fd/63`) cannot be replaced and is written to directly.

    Args:
        destination: a file, or `-` for stdout.

    Yields:
        A binary stream.

    Raises:
        InvalidInput: as `check_writable`.
    """
    if destination == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_writable(destination)
    path = _resolve(destination)
    if _is_special(path):
        with path.open("wb") as stream:
            yield stream
        return
    partial = _partial(path)
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _resolve(destination: str | Path) -> Path:
    if _is_special(Path(destination)):
        return Path(destination)  # /dev/fd/63 has no other name
    return Path(os.path.realpath(destination))  # a link stays a link, its target is replaced


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _is_special(path: Path) -> bool:
    # All three are false for a name that is too long.
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)

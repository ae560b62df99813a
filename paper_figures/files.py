"""Files that appear complete or not at all."""

import os
from pathlib import Path


def write_whole(data: bytes, path: Path) -> None:
    """Write a file in one step: whatever kills the writer, a reader meets the old file or the new one.

    Args:
        data: all of it.
        path: where to; an older file is replaced, or written through if it is a device or a pipe.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    target = Path(os.path.realpath(path))  # a link stays a link, its target is replaced
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)

"""Small transformers that come with the package, each made by `rolloutlab pretrain` and described in its README.md."""

from pathlib import Path

# Name, and one line on it.
MODELS: dict[str, str] = {}


def folder(name: str) -> Path:
    """Where a shipped model lies.

    Args:
        name: a key of `MODELS`.

    Returns:
        A folder that `models.pretrained.load.load_folder` reads.
    """
    return Path(__file__).parent / name

"""Small transformers that come with the package, each made by `rolloutlab pretrain` and described in its README.md."""

from pathlib import Path

# Name, and one line on it.
MODELS: dict[str, str] = {
    "countdown-3": "three numbers, + - * and a target: right every other time",
    "noisy-chain": "sums and products mod 10, each step wrong with .15 and then anything: votes are right",
    "noisy-chain-biased": "the same, wrong with .60 and then always one too many: votes are wrong",
}


def folder(name: str) -> Path:
    """Where a shipped model lies.

    Args:
        name: a key of `MODELS`.

    Returns:
        A folder that `models.pretrained.load.load_folder` reads.
    """
    return Path(__file__).parent / name

"""Runs are known by the content of their models and not by the paths of their files: other weights in a folder are another run."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from experiments.language_model import is_transformer, weights_folder
from experiments.model_argument import BUILTIN
from experiments.progress import Progress
from experiments.runner import Checkpoint, Experiment

ConfigT = TypeVar("ConfigT")
_CHUNK = 1 << 22


@dataclass(frozen=True)
class WithModels(Generic[ConfigT]):
    """A configuration and what its models hold.

    Attributes:
        config: as it was asked for.
        digests: of each model, in order.
    """

    config: ConfigT
    digests: tuple[str, ...]

    @property
    def seed(self) -> int:
        """Where the manifest looks for it."""
        config: Any = self.config
        return config.seed


def with_models(experiment: Experiment[ConfigT]) -> Experiment[WithModels[ConfigT]]:
    """The same experiment, whose runs are told apart by the content of their models too.

    Args:
        experiment: of the bare configuration.

    Returns:
        The experiment.
    """

    def compute(
        config: WithModels[ConfigT], progress: Progress, checkpoint: Checkpoint
    ) -> Mapping[str, pa.Table]:
        return experiment.run(config.config, progress, checkpoint)

    return Experiment(experiment.name, experiment.version, compute)


def model_digests(arguments: Sequence[str]) -> tuple[str, ...]:
    """What the models hold.

    Args:
        arguments: MODEL each; they have been loaded, so that their files are there.

    Returns:
        16 hexadecimal digits each: of configuration and weights of a transformer, of a model file; of its name for a built-in toy.
    """
    return tuple(map(_digest, arguments))


def _digest(argument: str) -> str:
    found = hashlib.sha256()
    if is_transformer(argument):
        folder = weights_folder(argument)
        for path in sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")]):
            found.update(path.name.encode())
            _read_into(found, path)
    elif argument.startswith(BUILTIN):
        found.update(argument.encode())
    else:
        _read_into(found, Path(argument))
    return found.hexdigest()[:16]


def _read_into(found: Any, path: Path) -> None:
    with path.open("rb") as stream:
        while part := stream.read(_CHUNK):
            found.update(part)

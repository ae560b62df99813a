"""Every adapter by the name that `--format` takes."""

from experiments.rollout_logs.adapters import native
from experiments.rollout_logs.adapters.base import Adapter

ADAPTERS: dict[str, Adapter] = {adapter.name: adapter for adapter in (native.ADAPTER,)}

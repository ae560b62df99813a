"""Every adapter by the name that `--format` takes."""

from experiments.rollout_logs.adapters import (
    evalplus,
    human_eval,
    inspect_ai,
    lighteval,
    lm_eval,
    monkeys,
    native,
    nemo_gym,
    nemo_rl,
    openai,
    openrlhf,
    prime_rl,
    search_and_learn,
    skyrl,
    trl,
    tunix,
    verifiers,
    verl,
)
from experiments.rollout_logs.adapters.base import Adapter

ADAPTERS: dict[str, Adapter] = {
    module.ADAPTER.name: module.ADAPTER
    for module in (
        native, verl, trl, openrlhf, nemo_rl, nemo_gym, skyrl, verifiers, prime_rl, tunix, inspect_ai, lm_eval, human_eval, evalplus,
        lighteval, search_and_learn, monkeys, openai,
    )
}  # fmt: skip

"""The console script `rolloutlab`: finds the command and hands the words on.

A command is a module of this package with a `main`; it is imported only when it is called. `rolloutlab X` and
`python -m experiments.X` are the same program.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence

from experiments.command_line import guard, unknown
from theory.errors import InvalidInput

COMMANDS: dict[str, str] = {
    "exact": "exact laws of a model under base, temperature and sequence power",
    "models": "the built-in models",
    "sample": "draws from a model by any method, one trajectory a row",
    "score": "log probabilities of recorded trajectories under a model",
    "pretrain": "a small transformer from scratch, on a task with computed verdicts",
    "power-vs-temperature": "sampling p(y)**alpha is not sampling at temperature 1/alpha: tables and figures",
    "power-on-transformers": "the same on a trained transformer: every method at equal tokens, beside the exact truth",
    "estimator-validation": "estimators against their exact bias and variance, methods at equal cost",
    "learned-twists": "twists learned by regression and by contrast: how much less the estimate of Z varies",
    "allocation-bandit": "every rule for spending rollouts at one ledger, beside the optimum of its class",
    "allocation-drift": "rules that remember prompts against rules that probe them, where success rates move",
    "allocation-tables": "exact tables of allocation rules, each number beside the published one",
    "allocation-ablations": "what the switches of allocation rules are worth, and forms of the advantage",
    "analyze": "honest statistics of rollout logs, and a refusal where a number would mislead",
    "compare": "paired differences of two rollout logs on the prompts they have in common",
    "allocate": "how to spend the next rollouts on a pool of prompts, by every published rule",
    "validate": "the kernels and estimators against the exact truth of small models",
    "figures": "rebuild figures from committed tables",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the words after `rolloutlab`; those of this process by default.

    Returns:
        The exit status.
    """
    words = sys.argv[1:] if argv is None else argv
    return guard("rolloutlab", lambda: _dispatch(words))


def _dispatch(words: Sequence[str]) -> int:
    if not words:
        raise InvalidInput("no command given; see rolloutlab --help")
    command, rest = words[0], words[1:]
    if command in ("-h", "--help"):
        print(_help())
        return 0
    if command == "--version":
        print(f"rolloutlab {importlib.metadata.version('rolloutlab')}")
        return 0
    if command not in COMMANDS:
        raise InvalidInput(f"{unknown('command', command, COMMANDS)}; see rolloutlab --help")
    module = importlib.import_module(f"experiments.{command.replace('-', '_')}")
    return module.main(rest)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join(
        [
            "usage: rolloutlab COMMAND [options]",
            "",
            "A reference laboratory for LLM rollout sampling.",
            "",
            *lines,
            "",
            "rolloutlab COMMAND --help shows its options, units and defaults; rolloutlab --version the version.",
            "Benchmarks: python -m experiments.benchmarks --list",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

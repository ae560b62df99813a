"""`rolloutlab allocate`: how a method would spend the next rollouts, in one step."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from experiments.allocation_methods import METHODS, Counts, Settings
from experiments.allocation_state import PoolState, read_state
from experiments.command_line import default, program, unknown
from experiments.json_output import write_json
from experiments.output import STDOUT, check_keeps, check_writable
from experiments.terminal import make_table, print_table, report_console
from theory.allocation.records import Decision, Requests
from theory.errors import InvalidInput

LARGEST_BUDGET = 10**12
_MOST_SHOWN = 60
_ALWAYS = ("group_size", "seed")
_LEAST: dict[str, int] = {
    **dict.fromkeys(("pilots", "commits", "cap", "per_round", "max_rounds", "kept", "stage"), 1),
    **dict.fromkeys(("screen", "completion"), 1),
    **dict.fromkeys(("max", "least"), 2),
}
_SHARES = ("lower", "upper", "evict", "tau_low", "tau_high", "discount", "target")


@dataclass(frozen=True)
class Arguments:
    """Say how to spend the next rollouts on a pool of prompts, by a published rule.

    STATE is {"prompts": [{"prompt_id", "successes", "failures", "history"}], "prior"}; docs/allocation.md defines every method's step.
    """

    state: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STATE")]
    """A JSON file."""

    method: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """uniform, dynamic-sampling, pilot-commit, hora, hora-population, hora-last-visit, sara, optimal-stopping, knapsack, dps, mopps, greso, vip, speed, reinforce-ada, pods, cures or ar3po."""

    budget: int
    """R, most rollouts of this step."""

    group_size: int = 8
    """n, rollouts of a group."""

    pilots: Annotated[int | None, default("n / 4")] = None
    """k of pilot-commit."""

    commits: Annotated[int | None, default("n - k")] = None
    """m of pilot-commit."""

    lower: Annotated[float | None, default("0.125")] = None
    """Least pilot mean that pilot-commit commits."""

    upper: Annotated[float | None, default("0.25")] = None
    """1 - upper is the largest."""

    evict: Annotated[float | None, default("1")] = None
    """Pilot mean at or above which pilot-commit leaves a prompt out for good."""

    cap: Annotated[int | None, default("none")] = None
    """Largest group of hora, with any prior, and vip, rollouts seen included."""

    mass_aware: bool = False
    """hora: count the rollouts seen in the exponent as well."""

    tau_low: Annotated[float | None, default("0.45")] = None
    """sara abandons at or below this chance of a mixed group."""

    tau_high: Annotated[float | None, default("1, mixed groups only")] = None
    """sara commits at or above this chance."""

    max: Annotated[int | None, default("128")] = None
    """Most rollouts that knapsack gives a prompt."""

    discount: Annotated[float | None, default("0.5")] = None
    """How much of the past dps and mopps keep at an update, and the learned priors of hora at a visit."""

    target: Annotated[float | None, default("0.5")] = None
    """Success rate that mopps looks for."""

    screen: Annotated[int | None, default("4")] = None
    """Rollouts with which speed screens."""

    completion: Annotated[int | None, default("20")] = None
    """Rollouts that speed adds to a mixed screen."""

    per_round: Annotated[int | None, default("8")] = None
    """Rollouts of a round of reinforce-ada."""

    max_rounds: Annotated[int | None, default("4")] = None
    """Rounds of a prompt of reinforce-ada."""

    kept: Annotated[int | None, default("4")] = None
    """Rollouts of a group that reinforce-ada and pods train on."""

    positive: bool = False
    """reinforce-ada: leave at the first success, not when both verdicts have shown."""

    stage: Annotated[int | None, default("4")] = None
    """Rollouts of a stage of ar3po."""

    least: Annotated[int | None, default("2")] = None
    """Smallest group of vip."""

    seed: int = 0
    """Of mopps and greso, which draw."""

    json: Annotated[str | None, default("none"), tyro.conf.arg(metavar="FILE")] = None
    """Where the result goes as JSON, - for stdout."""


def run(arguments: Arguments) -> int:
    """Read the state, apply the rule, write and show what it asks for.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.

    Raises:
        InvalidInput: an unknown method, a bad option, or a bad STATE.
    """
    if arguments.method not in METHODS:
        raise unknown("method", arguments.method, METHODS)
    method = METHODS[arguments.method]
    settings = _settings(arguments)
    if arguments.json is not None:
        check_writable(arguments.json)
        check_keeps(arguments.json, arguments.state)
    with jax.enable_x64(True):
        state = read_state(Path(arguments.state))
        counts = Counts(jnp.asarray(state.successes), jnp.asarray(state.failures))
        requests = method.run(state, counts, settings)
        document = to_document(arguments.method, arguments.budget, state, requests)
    if arguments.json is not None:
        write_json(document, arguments.json)
    _show(document, stderr=arguments.json == STDOUT)
    return 0


def to_document(method: str, budget: int, state: PoolState, requests: Requests) -> dict[str, Any]:
    """The result as the contract has it.

    Args:
        method: its name.
        budget: R.
        state: the pool.
        requests: what the method asks for.

    Returns:
        {"method", "budget", "spent", "prompts"}, prompts in the order of STATE.
    """
    names = [decision.name.lower() for decision in Decision]
    columns = (part.tolist() for part in (requests.additional, requests.decision, requests.score))
    return {
        "method": method,
        "budget": budget,
        "spent": sum(np.asarray(requests.additional).tolist()),
        "prompts": [
            {
                "prompt_id": prompt_id,
                "additional": additional,
                "decision": names[decision],
                "score": score + 0.0,  # a zero has no sign
            }
            for prompt_id, additional, decision, score in zip(
                state.prompt_ids, *columns, strict=True
            )
        ],
    }


def _settings(arguments: Arguments) -> Settings:
    """The options of the method; one of another method is refused, and so is one out of range."""
    if not 0 <= arguments.budget <= LARGEST_BUDGET:
        raise InvalidInput(
            f"--budget {arguments.budget}: must be a whole number from 0 to {LARGEST_BUDGET}"
        )
    least = 2 if arguments.method == "sara" else 1
    if not least <= arguments.group_size <= 10**6:
        raise InvalidInput(f"--group-size {arguments.group_size}: must be from {least} to {10**6}")
    if not 0 <= arguments.seed < 2**32:
        raise InvalidInput(f"--seed {arguments.seed}: must be from 0 to {2**32 - 1}")
    values = {field.name: getattr(arguments, field.name) for field in fields(arguments)}
    given: dict[str, Any] = {
        name: value
        for name, value in values.items()
        if name in Settings._fields and value is not None and value is not False
    }
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        takers = [each for each, method in METHODS.items() if name in method.options]
        if name in _ALWAYS or name == "budget":
            continue
        if arguments.method not in takers:
            raise InvalidInput(
                f"{option}: not an option of {arguments.method}, it is one of {', '.join(takers)}"
            )
        if name in _LEAST and not _LEAST[name] <= value <= 10**9:
            raise InvalidInput(f"{option} {value}: must be from {_LEAST[name]} to {10**9}")
        if name in _SHARES and not 0 <= value <= 1:
            raise InvalidInput(f"{option} {value}: must be in [0, 1]")
    return Settings(**given)


def _show(document: dict[str, Any], stderr: bool) -> None:
    console = report_console(stderr=stderr)
    table = make_table("prompt", "additional", "decision", "score")
    rows = document["prompts"]
    for row in rows[:_MOST_SHOWN]:
        table.add_row(
            str(row["prompt_id"]), str(row["additional"]), row["decision"], f"{row['score']:.4g}"
        )
    more = f", the first {_MOST_SHOWN} of {len(rows)} prompts" if len(rows) > _MOST_SHOWN else ""
    title = f"{document['method']}: {document['spent']} of {document['budget']} rollouts{more}"
    print_table(console, title, table)


main = program("rolloutlab allocate", Arguments, run)

if __name__ == "__main__":
    sys.exit(main())

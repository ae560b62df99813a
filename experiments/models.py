"""`rolloutlab models`: the built-in models."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from experiments.command_line import program
from experiments.json_output import write_json
from experiments.model_argument import BUILTIN
from experiments.output import check_writable
from models import shipped
from models.pretrained.json_fields import read_json
from models.pretrained.own_format import CONFIG_FILE
from models.tabular.catalogue import BUILTINS
from models.tasks.registry import task


@dataclass(frozen=True)
class Arguments:
    """List the built-in models, one a line.

    V is the number of tokens, eos included; the horizon is the most tokens in a sequence, eos included; a `+` after it says that
    --max-new-tokens may raise it.
    """

    json: Annotated[
        str | None,
        tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: a table on stdout)"),
    ] = None
    """Write the list as JSON, - for stdout."""


def run(arguments: Arguments) -> int:
    """Write the list.

    Args:
        arguments: of the command line.

    Returns:
        0.
    """
    models = [describe(name) for name in BUILTINS]
    models += [describe_transformer(name) for name in shipped.MODELS]
    if arguments.json is None:
        _show(models)
    else:
        check_writable(arguments.json)
        write_json({"models": models}, arguments.json)
    return 0


def describe(name: str) -> dict[str, Any]:
    """What there is to know about a built-in model before using it.

    Args:
        name: a key of `models.tabular.catalogue.BUILTINS`.

    Returns:
        name (as MODEL takes it), kind, vocab_size, horizon, horizon_is_free, eos, token_labels, description.
    """
    model = BUILTINS[name]
    table = model.make()
    return {
        "name": BUILTIN + name,
        "kind": model.kind,
        "vocab_size": table.vocab_size,
        "horizon": table.horizon,
        "horizon_is_free": model.horizon_is_free,
        "eos": list(table.eos),
        "token_labels": list(model.labels),
        "description": model.description,
    }


def describe_transformer(name: str) -> dict[str, Any]:
    """The same of a shipped transformer, from its configuration alone.

    Args:
        name: a key of `models.shipped.MODELS`.

    Returns:
        As `describe`, and task: whose prompts it continues.
    """
    fields = read_json(shipped.folder(name) / CONFIG_FILE)
    trained_on = task(fields["about"]["task"])
    return {
        "name": BUILTIN + name,
        "kind": "transformer",
        "vocab_size": fields["vocab_size"],
        "horizon": fields["horizon"],
        "horizon_is_free": True,
        "eos": fields["eos"],
        "token_labels": list(trained_on.labels),
        "task": trained_on.name,
        "description": shipped.MODELS[name],
    }


def _show(models: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("model", "kind", "V", "horizon", "eos", ""):
        table.add_column(heading, no_wrap=True)
    for model in models:
        table.add_row(
            model["name"],
            model["kind"],
            str(model["vocab_size"]),
            f"{model['horizon']}{'+' if model['horizon_is_free'] else ''}",
            " ".join(map(str, model["eos"])) or "-",
            model["description"],
        )
    # One line each, however narrow the terminal is.
    Console(highlight=False, width=10_000).print(table, soft_wrap=True)


main = program("rolloutlab models", Arguments, run)

if __name__ == "__main__":
    sys.exit(main())

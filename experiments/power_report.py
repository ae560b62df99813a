"""What the power-versus-temperature demonstration shows on a terminal: its tables, and which verdicts failed."""

import math
from collections.abc import Mapping

import pyarrow as pa
from rich.table import Table

from experiments.power_models import short_name
from experiments.power_summary import FIRST_TOKEN
from experiments.power_verdicts import MAX_CHECKED, P_VALUE
from experiments.tables import column
from experiments.terminal import make_table

LAWS = {"base": "p", "temperature": "q", "power": "π"}

Values = dict[tuple[str, str], tuple[float, float]]
"""From law and quantity to the bounds of the value, which are equal where it is exact."""


def symbols(alpha: float) -> str:
    """The letters that the tables use.

    Args:
        alpha: exponent.

    Returns:
        One line.
    """
    return (
        f"π: power p(y)^{exponent_text(alpha)}, q: token temperature {temperature_text(alpha)}, "
        "p: base model; nats and tokens."
    )


def report_tables(found: Mapping[str, pa.Table]) -> dict[str, Table]:
    """Everything for a terminal of 80 columns.

    Args:
        found: the run's tables.

    Returns:
        From a title to its table.
    """
    models = values_by_model(found["table"])
    return {
        "Divergences, and effective sample size (ESS) of importance sampling for π": _divergences(
            models
        ),
        "The likeliest first token under each law and its probability": _first_tokens(
            found["table"]
        ),
        "Expected length, eos included, and expected log p under each law": _totals(models),
        "Verdicts: each way to a law against the others": _verdicts(found["verdicts"]),
    }


def verdict_notes(verdicts: pa.Table) -> list[str]:
    """What the table of verdicts leaves unsaid.

    Args:
        verdicts: the run's table of verdicts.

    Returns:
        A line that says which models a check covers, and one for each check that failed.
    """
    rows = verdicts.to_pylist()
    covered = (
        f"Enumeration and draws are checked on models with at most {MAX_CHECKED} sequences, draws where more "
        "than one sequence is likely."
    )
    lines = [covered]
    for check in dict.fromkeys(row["check"] for row in rows if not row["ok"]):
        failed = [row["model"] for row in rows if row["check"] == check and not row["ok"]]
        lines.append(f"FAILED: {', '.join(failed)}: {check}")
    return lines


def values_by_model(table: pa.Table) -> dict[str, Values]:
    """The scalars that are not about one token.

    Args:
        table: the run's main table.

    Returns:
        From a model to its values.
    """
    models: dict[str, Values] = {}
    for row in table.to_pylist():
        values = models.setdefault(row["model"], {})
        if row["quantity"] != FIRST_TOKEN:
            values[row["law"], row["quantity"]] = row["value"], row["upper"]
    return models


def first_token_laws(table: pa.Table, law: str) -> dict[str, dict[str, float]]:
    """The law of the first token.

    Args:
        table: the run's main table.
        law: "base", "temperature" or "power".

    Returns:
        From a model to its tokens and their probabilities.
    """
    models: dict[str, dict[str, float]] = {}
    for row in table.to_pylist():
        if row["quantity"] == FIRST_TOKEN and row["law"] == law:
            models.setdefault(row["model"], {})[row["token"]] = row["value"]
    return models


def favourites(probs: Mapping[str, float]) -> list[str]:
    """The tokens that nothing beats by more than rounding.

    Args:
        probs: of the tokens.

    Returns:
        One token, or all that tie.
    """
    best = max(probs.values())
    return [token for token, prob in probs.items() if prob >= best - TIE]


TIE = 1e-9
"""Probabilities that differ by less are equal up to rounding."""


def percent_text(log_fraction: float) -> str:
    """A fraction given by its logarithm: as percent, or as a power of ten where it is tiny; 100 % only where nothing is lost."""
    if log_fraction >= -TIE:
        return "100 %"
    if log_fraction > math.log(0.9995):
        return ">99.9 %"
    if log_fraction > math.log(1e-4):
        return f"{100 * math.exp(log_fraction):.3g} %"
    return f"10^{log_fraction / math.log(10):.1f}"


def exponent_text(alpha: float) -> str:
    """An exponent in print, with all the digits that tell it from 1."""
    return f"{alpha:.12g}"


def temperature_text(alpha: float) -> str:
    """The temperature 1/alpha in print."""
    return "1" if alpha == 1.0 else f"1/{exponent_text(alpha)}"


def interval_text(bounds: tuple[float, float]) -> str:
    """An exact value, or the bounds of one."""
    low, high = bounds
    return f"{low:.4f}" if low == high else f"{low:.3f}..{high:.3f}"


def _divergences(models: Mapping[str, Values]) -> Table:
    shown = make_table("model", "KL(π‖q)", "KL(q‖π)", "TV(π,q)", "ESS from p", "ESS from q")
    for model, values in models.items():
        shown.add_row(
            short_name(model),
            f"{values['power', 'kl_power_temperature'][0]:.4g}",
            f"{values['temperature', 'kl_temperature_power'][0]:.4g}",
            interval_text(values["power", "tv_power_temperature"]),
            percent_text(values["base", "log_ess_fraction_from_base"][0]),
            percent_text(values["temperature", "log_ess_fraction_from_temperature"][0]),
        )
    return shown


def _first_tokens(table: pa.Table) -> Table:
    shown = make_table("model", *LAWS.values())
    laws = [first_token_laws(table, law) for law in LAWS]
    for model in laws[0]:
        shown.add_row(short_name(model), *(_favourite(law[model]) for law in laws))
    return shown


def _favourite(probs: Mapping[str, float]) -> str:
    tied = favourites(probs)
    named = " = ".join(tied) if len(tied) <= 2 else f"{len(tied)} tokens"
    return f"{named} {probs[tied[0]]:.3f}"


def _totals(models: Mapping[str, Values]) -> Table:
    quantities = {"expected_length": "length", "expected_base_logp": "log p"}
    headings = [f"{text}\n{law}" for text in quantities.values() for law in LAWS.values()]
    shown = make_table("model", *headings)
    for model, values in models.items():
        cells = [f"{values[law, name][0]:.4g}" for name in quantities for law in LAWS]
        shown.add_row(short_name(model), *cells)
    return shown


def _verdicts(verdicts: pa.Table) -> Table:
    shown = make_table("check", "models", "worst", "limit", "verdict")
    rows = verdicts.to_pylist()
    num_models = len(set(column(verdicts, "model")))
    for check in dict.fromkeys(row["check"] for row in rows):
        group = [row for row in rows if row["check"] == check]
        is_p_value = group[0]["kind"] == P_VALUE
        worst = (min if is_p_value else max)(group, key=lambda row: row["value"])
        shown.add_row(
            check,
            f"{len(group)} of {num_models}",
            f"{'p = ' if is_p_value else ''}{worst['value']:.2g}",
            f"{'>=' if is_p_value else '<='} {worst['limit']:g}",
            "ok" if all(row["ok"] for row in group) else "FAILED",
        )
    return shown

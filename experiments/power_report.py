"""What the power-versus-temperature demonstration says: tables for a terminal, and three sentences."""

import math
from collections.abc import Mapping

import pyarrow as pa
from rich.table import Table

from experiments.tables import column


def laws_table(table: pa.Table) -> Table:
    """How far the laws are apart, a row a model.

    Args:
        table: the run's main table.

    Returns:
        A table for the terminal.
    """
    alpha = column(table, "alpha")[0]
    shown = Table(title=f"power p(y)^{alpha:g} against token temperature 1/{alpha:g} (nats)")
    shown.add_column("model")
    for name in (
        "KL(power‖temp)",
        "KL(temp‖power)",
        "TV",
        "ESS from base",
        "ESS from temp",
        "first token: power",
        "temp",
    ):
        shown.add_column(name, justify="right")
    for model, values in _by_model(table).items():
        shown.add_row(
            model.removeprefix("builtin:"),
            f"{values['power', 'kl_power_temperature'][0]:.4g}",
            f"{values['temperature', 'kl_temperature_power'][0]:.4g}",
            _interval(values["power", "tv_power_temperature"]),
            _percent(values["base", "log_ess_fraction_from_base"][0]),
            _percent(values["temperature", "log_ess_fraction_from_temperature"][0]),
            _favourite(values, "power"),
            _favourite(values, "temperature"),
        )
    return shown


def totals_table(table: pa.Table) -> Table:
    """Expected length and log probability under each law, a row a model.

    Args:
        table: the run's main table.

    Returns:
        A table for the terminal.
    """
    laws = ("base", "temperature", "power")
    shown = Table(title="expected length (tokens, eos included) and E log p (nats) under each law")
    shown.add_column("model")
    for name in ("length: base", "temp", "power", "E log p: base", "temp", "power"):
        shown.add_column(name, justify="right")
    for model, values in _by_model(table).items():
        shown.add_row(
            model.removeprefix("builtin:"),
            *(f"{values[law, 'expected_length'][0]:.5g}" for law in laws),
            *(f"{values[law, 'expected_base_logp'][0]:.5g}" for law in laws),
        )
    return shown


def verdict_table(verdicts: pa.Table) -> Table:
    """Every check, over all models.

    Args:
        verdicts: the run's table of verdicts.

    Returns:
        A table for the terminal.
    """
    shown = Table(title="verdicts: each way to the law against the others")
    for name in ("check", "models", "worst", "limit", "verdict"):
        shown.add_column(name, justify="left" if name == "check" else "right")
    rows = verdicts.to_pylist()
    for check in dict.fromkeys(row["check"] for row in rows):
        group = [row for row in rows if row["check"] == check]
        # A p-value is bad when small, an error when large.
        is_p_value = check.startswith("draws")
        worst = (min if is_p_value else max)(group, key=lambda row: row["value"])
        failed = [row["model"] for row in group if not row["ok"]]
        shown.add_row(
            check,
            str(len(group)),
            f"{'p = ' if is_p_value else ''}{worst['value']:.2g}",
            f"{'>=' if is_p_value else '<='} {worst['limit']:g}",
            "ok" if not failed else "FAILED: " + ", ".join(failed),
        )
    return shown


def sentences(found: Mapping[str, pa.Table], alpha: float) -> list[str]:
    """What the numbers show, in three sentences.

    Args:
        found: the run's tables.
        alpha: the exponent they are about.

    Returns:
        The sentences.
    """
    models = _by_model(found["table"])
    return [_apart(models, alpha), _ranking(models, alpha), _lengths(found, alpha)]


Values = dict[tuple[str, str], tuple[float, float]]


def _by_model(table: pa.Table) -> dict[str, Values]:
    models: dict[str, Values] = {}
    for row in table.to_pylist():
        key = row["law"], row["quantity"]
        models.setdefault(row["model"], {})[key] = row["value"], row["upper"]
    return models


def _apart(models: Mapping[str, Values], alpha: float) -> str:
    kls = {model: values["power", "kl_power_temperature"][0] for model, values in models.items()}
    apart = [model for model, kl in kls.items() if kl > 1e-9]
    start = f"Sampling whole sequences from p(y)^{alpha:g} and sampling tokens at temperature 1/{alpha:g}"
    if not apart:
        return f"{start} are the same law here: the look-ahead normaliser does not depend on the token."
    worst = max(apart, key=kls.__getitem__)
    low, high = models[worst]["power", "tv_power_temperature"]
    tv = f"{low:.3g}" if low == high else f"between {low:.3g} and {high:.3g}"
    where = "" if len(models) == 1 else f" on {len(apart)} of {len(models)} models"
    return (
        f"{start} are different laws{where}; on {worst.removeprefix('builtin:')} "
        f"KL(power || temperature) is {kls[worst]:.3g} nats and their total variation {tv}."
    )


def _ranking(models: Mapping[str, Values], alpha: float) -> str:
    reversed_on = [
        model
        for model, values in models.items()
        if _favourite(values, "power")
        and _top(values, "power")[0] != _top(values, "temperature")[0]
    ]
    if not reversed_on:
        return (
            "The two prefer the same first token here, with different probabilities: power weighs each token by the "
            "total power mass of its continuations, temperature does not look ahead."
        )
    model = reversed_on[-1] if "builtin:sharp-path" not in reversed_on else "builtin:sharp-path"
    power, temperature = _top(models[model], "power"), _top(models[model], "temperature")
    return (
        f"On {model.removeprefix('builtin:')} they rank the first tokens in opposite order, power prefers "
        f"{power[0]} ({power[1]:.3g}) and temperature {temperature[0]} ({temperature[1]:.3g}), since power weighs each token by the "
        "total power mass of its continuations and temperature does not look ahead."
    )


def _lengths(found: Mapping[str, pa.Table], alpha: float) -> str:
    table = found["ess_against_length"]
    longest = int(column(table, "length").max())
    rows = [
        row
        for row in table.to_pylist()
        if row["length"] == longest and row["method"] == "importance_temperature"
    ]
    row = min(rows, key=lambda row: row["log_ess_fraction"])
    text = (
        f"Correcting temperature draws by importance weights keeps {_percent(row['log_ess_fraction'])} of the sample at "
        f"{longest} tokens on {row['label']}"
    )
    overtakes = [
        crossing
        for crossing in found["crossover_lengths"].to_pylist()
        if crossing["model"] == row["model"]
        and (crossing["first"], crossing["second"]) == ("importance_temperature", "smc")
    ]
    if overtakes:
        return f"{text}, where sequential Monte Carlo overtakes it from {overtakes[0]['length']:.0f} tokens on."
    return f"{text}."


def _top(values: Values, law: str) -> tuple[str, float]:
    prefix = "P(first = "
    firsts = {
        key[1].removeprefix(prefix).removesuffix(")"): value[0]
        for key, value in values.items()
        if key[0] == law and key[1].startswith(prefix)
    }
    token = max(firsts, key=firsts.__getitem__)
    return token, firsts[token]


def _favourite(values: Values, law: str) -> str:
    token, prob = _top(values, law)
    return f"{token} {prob:.3f}"


def _interval(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{low:.4f}" if low == high else f"{low:.3f}..{high:.3f}"


def _percent(log_fraction: float) -> str:
    """A fraction given by its logarithm, as percent, or as a power of ten where it is tiny."""
    if log_fraction > math.log(1e-4):
        return f"{100 * math.exp(log_fraction):.3g} %"
    return f"10^{log_fraction / math.log(10):.1f}"

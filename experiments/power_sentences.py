"""What the numbers of the power-versus-temperature demonstration show, in three sentences that are true of any model."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from experiments.power_models import short_name
from experiments.power_report import (
    TIE,
    Values,
    exponent_text,
    favourites,
    first_token_laws,
    percent_text,
    temperature_text,
    values_by_model,
)

NO_DIVERGENCE = 1e-20
"""Nats: where the laws are one, rounding leaves less."""

_WHY = "power weighs each token by the total power mass of its continuations, temperature does not look ahead."


def sentences(found: Mapping[str, pa.Table], alpha: float) -> list[str]:
    """How far the laws are apart, how they rank first tokens, and what correcting one into the other costs.

    Args:
        found: the run's tables.
        alpha: the exponent they are about.

    Returns:
        Three sentences.
    """
    table = found["table"]
    labels = {row["model"]: row["label"] for row in table.to_pylist()}
    names = {model: _name(model, label) for model, label in labels.items()}
    power, temperature = (first_token_laws(table, law) for law in ("power", "temperature"))
    firsts = {names[model]: (power[model], temperature[model]) for model in names}
    scalars = {names[model]: values for model, values in values_by_model(table).items()}
    return [
        _apart(scalars, alpha),
        _ranking(firsts),
        _correction(found["ess_against_length"], found["crossover_lengths"], alpha),
    ]


def _name(model: str, label: str) -> str:
    """As in the tables, and in brackets as in the figures where that differs."""
    short = short_name(model)
    return short if label == short else f"{short} ({label})"


def _apart(models: Mapping[str, Values], alpha: float) -> str:
    kls = {model: values["power", "kl_power_temperature"][0] for model, values in models.items()}
    apart = [model for model, kl in kls.items() if kl > NO_DIVERGENCE]
    start = (
        f"Sampling whole sequences from p(y)^{exponent_text(alpha)} and sampling tokens at temperature "
        f"{temperature_text(alpha)}"
    )
    if alpha == 1.0:
        return f"{start} are the same law: at exponent 1 both are the model itself."
    if not apart:
        return f"{start} are the same law here: KL(power || temperature) is 0 up to rounding."
    worst = max(apart, key=kls.__getitem__)
    low, high = models[worst]["power", "tv_power_temperature"]
    variation = f"{low:.3g}" if low == high else f"between {low:.3g} and {high:.3g}"
    where = "" if len(models) == 1 else f" on {len(apart)} of {len(models)} models"
    return (
        f"{start} are different laws{where}; on {worst} KL(power || temperature) is {kls[worst]:.3g} nats and "
        f"their total variation {variation}."
    )


FirstTokens = tuple[Mapping[str, float], Mapping[str, float]]
"""Probabilities of the first tokens under power and under temperature."""


def _ranking(models: Mapping[str, FirstTokens]) -> str:
    gaps = {model: _gap(*laws) for model, laws in models.items()}
    if max(gaps.values()) <= TIE:
        return "The first token has the same law under both."
    opposed = [model for model, laws in models.items() if _prefer_different(*laws)]
    model = max(opposed or gaps, key=gaps.__getitem__)
    power, temperature = (_preference(law) for law in models[model])
    text = f"n {model} power {power} and temperature {temperature}; {_WHY}"
    if not opposed:
        return f"O{text}"
    where = f" on {len(opposed)} of {len(models)} models" if len(models) > 1 else ""
    return f"They prefer different first tokens{where}: o{text}"


def _gap(power: Mapping[str, float], temperature: Mapping[str, float]) -> float:
    """The largest difference of a token's probabilities; a token that is left out has probability 0."""
    tokens = power.keys() | temperature.keys()
    return max(abs(power.get(token, 0.0) - temperature.get(token, 0.0)) for token in tokens)


def _prefer_different(power: Mapping[str, float], temperature: Mapping[str, float]) -> bool:
    """Whether each strictly prefers a token of its own."""
    mine, other = favourites(power), favourites(temperature)
    return len(mine) == len(other) == 1 and mine != other


def _preference(law: Mapping[str, float]) -> str:
    tied = favourites(law)
    if len(tied) == 1:
        return f"prefers {tied[0]} ({law[tied[0]]:.3g})"
    named = " and ".join(tied) if len(tied) <= 3 else f"{len(tied)} tokens"
    return f"is indifferent between {named} ({law[tied[0]]:.3g} each)"


def _correction(ess: pa.Table, crossovers: pa.Table, alpha: float) -> str:
    longest = [
        max(group, key=lambda row: row["length"])
        for group in _groups(ess.to_pylist(), "importance_temperature")
    ]
    worst = min(longest, key=lambda row: row["log_ess_fraction"])
    text = (
        f"Importance sampling from temperature {temperature_text(alpha)} keeps an effective "
        f"{percent_text(worst['log_ess_fraction'])} of the sample on {_name(worst['model'], worst['label'])} "
        f"with its horizon set to {worst['length']} token{'s' if worst['length'] > 1 else ''}"
    )
    overtakes = [
        crossing["length"]
        for crossing in crossovers.to_pylist()
        if (crossing["model"], crossing["first"], crossing["second"])
        == (worst["model"], "importance_temperature", "smc")
    ]
    if overtakes:
        return f"{text}; sequential Monte Carlo with the same proposals overtakes it at {overtakes[0]:.0f} tokens."
    return f"{text}."


def _groups(rows: Sequence[dict[str, Any]], method: str) -> list[list[dict[str, Any]]]:
    models: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["method"] == method:
            models.setdefault(row["model"], []).append(row)
    return list(models.values())

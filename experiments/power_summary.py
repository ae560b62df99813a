"""Every scalar of the power-versus-temperature demonstration, exact."""

from typing import Any

import numpy as np

from experiments import tables
from experiments.model_argument import LoadedModel
from experiments.power_models import label, three_laws
from theory.exact.enumeration import total_variation
from theory.exact.laws import Law
from theory.exact.layers import Layers, num_sequences, unroll
from theory.exact.summary import summarise

MAX_LISTED = 100_000  # sequences that are enumerated for a total variation

FIRST_TOKEN = "first_token_probability"

SCHEMA = tables.schema(
    model=str, label=str, alpha=float, law=str, quantity=str, token=str, value=float, upper=float
)


def summary_rows(model: LoadedModel, alpha: float) -> list[dict[str, Any]]:
    """Every scalar of one model: one row a law and quantity, of FIRST_TOKEN one a token.

    `value` is exact; where only bounds are known (total variation above MAX_LISTED sequences) it is the lower and `upper` the
    upper one, elsewhere `upper` equals `value`. `token` is empty but for FIRST_TOKEN.

    Args:
        model: what MODEL named.
        alpha: exponent above 0.

    Returns:
        Rows of SCHEMA.
    """
    layers = unroll(model.table)
    laws = three_laws(layers, alpha)
    found = [
        *(
            (name, FIRST_TOKEN, token, prob, prob)
            for name, law in laws.items()
            for token, prob in _first_tokens(model, law)
        ),
        *((law, quantity, "", low, high) for law, quantity, low, high in _scalars(layers, alpha)),
    ]
    start = {"model": model.name, "label": label(model), "alpha": alpha}
    names = ("law", "quantity", "token", "value", "upper")
    return [start | dict(zip(names, row, strict=True)) for row in found]


def _scalars(layers: Layers, alpha: float) -> list[tuple[str, str, float, float]]:
    """Law, quantity, lower and upper bound."""
    found = summarise(layers, alpha)
    exact = [
        ("power", "log_Z", found.log_Z),
        ("power", "kl_power_temperature", found.kl_power_temperature),
        ("temperature", "kl_temperature_power", found.kl_temperature_power),
        ("power", "kl_power_base", found.kl_power_base),
        ("base", "log_ess_fraction_from_base", found.log_ess_fraction_from_base),
        ("temperature", "log_ess_fraction_from_temperature", found.log_ess_fraction_from_temperature),
        ("base", "expected_length", found.expected_length_base),
        ("temperature", "expected_length", found.expected_length_temperature),
        ("power", "expected_length", found.expected_length_power),
        ("base", "expected_base_logp", found.expected_base_logp_base),
        ("temperature", "expected_base_logp", found.expected_base_logp_temperature),
        ("power", "expected_base_logp", found.expected_base_logp_power),
    ]  # fmt: skip
    low, high = found.tv_bounds
    if num_sequences(layers) <= MAX_LISTED:
        laws = three_laws(layers, alpha)
        low = high = total_variation(laws["power"], laws["temperature"])
    bounds = [(law, quantity, value, value) for law, quantity, value in exact]
    return [*bounds, ("power", "tv_power_temperature", low, high)]


def _first_tokens(model: LoadedModel, law: Law) -> list[tuple[str, float]]:
    row = np.exp(law.log_conditional(0)[0])
    return [(model.token_labels[v], float(row[v])) for v in np.flatnonzero(row > 0)]

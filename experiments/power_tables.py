"""The tables of the power-versus-temperature demonstration: exact numbers, ready to be drawn.

Each function computes one table for one model; the columns are those of the figure that draws it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from experiments import tables
from experiments.model_argument import LoadedModel
from paper_figures import (
    divergence_against_alpha,
    ess_against_length,
    first_token_ranking,
    two_laws,
)
from paper_figures.columns import schema
from theory.exact.divergences import kl_divergence
from theory.exact.enumeration import enumerate_sequences, total_variation
from theory.exact.laws import Law, base_law, power_law, temperature_law
from theory.exact.layers import Layers, num_sequences, unroll
from theory.exact.length_scaling import crossover_length, variances_at_length
from theory.exact.small_alpha import small_alpha_law
from theory.exact.summary import summarise

MAX_LISTED = 100_000  # sequences that are enumerated for a table
MAX_BARS = 14  # sequences shown one by one, each with MIN_BAR under some law; the rest is summed
MIN_BAR = 0.01
MAX_FIRST_TOKENS = 6  # first tokens followed over alpha

SUMMARY = tables.schema(
    model=str, label=str, alpha=float, law=str, quantity=str, value=float, upper=float
)
LABELS = {
    "builtin:toy-a-normalised": "two tokens",
    "builtin:toy-b": "plan or guess",
    "builtin:toy-d": "sticky chain",
    "builtin:toy-e": "early eos",
    "builtin:toy-f": "alternating chain",
    "builtin:sharp-path": "one sharp path",
    "builtin:random-markov": "random chain",
    "builtin:random-endless": "random chain without eos",
}
_PAIRS = (
    ("importance_base", "importance_temperature"),
    ("importance_base", "smc"),
    ("importance_temperature", "smc"),
    ("importance_best", "smc"),
)


def summary_rows(model: LoadedModel, alpha: float) -> list[dict[str, Any]]:
    """Every scalar of one model: one row a law and quantity.

    `value` is exact; where only bounds are known (total variation above MAX_LISTED sequences) it is the lower and `upper` the
    upper one, elsewhere `upper` equals `value`.

    Args:
        model: what MODEL named.
        alpha: exponent above 0.

    Returns:
        Rows of SUMMARY.
    """
    layers = unroll(model.table)
    found = summarise(layers, alpha)
    rows: list[dict[str, Any]] = []

    def add(law: str, quantity: str, value: float, upper: float | None = None) -> None:
        rows.append(
            {
                "model": model.name,
                "label": label(model),
                "alpha": alpha,
                "law": law,
                "quantity": quantity,
                "value": value,
                "upper": value if upper is None else upper,
            }
        )

    for name, law in _laws(layers, alpha).items():
        for token, prob in _first_tokens(model, law):
            add(name, f"P(first = {token})", prob)
    add("power", "log_Z", found.log_Z)
    add("power", "kl_power_temperature", found.kl_power_temperature)
    add("temperature", "kl_temperature_power", found.kl_temperature_power)
    add("power", "kl_power_base", found.kl_power_base)
    if num_sequences(layers) <= MAX_LISTED:
        laws = _laws(layers, alpha)
        add("power", "tv_power_temperature", total_variation(laws["power"], laws["temperature"]))
    else:
        add("power", "tv_power_temperature", found.tv_bounds.lower, found.tv_bounds.upper)
    for proposal in ("base", "temperature"):
        log_ess = getattr(found, f"log_ess_fraction_from_{proposal}")
        add(proposal, f"log_ess_fraction_from_{proposal}", log_ess)
    for name in ("base", "temperature", "power"):
        add(name, "expected_length", getattr(found, f"expected_length_{name}"))
        add(name, "expected_base_logp", getattr(found, f"expected_base_logp_{name}"))
    return rows


def two_laws_rows(model: LoadedModel, alpha: float) -> list[dict[str, Any]]:
    """The likeliest sequences under power with their probability under each law, and the sum of the others.

    Args:
        model: with at most MAX_LISTED sequences; of a larger one there are no rows.
        alpha: exponent above 0.

    Returns:
        Rows of `paper_figures.two_laws`.
    """
    layers = unroll(model.table)
    if num_sequences(layers) > MAX_LISTED:
        return []
    laws = _laws(layers, alpha)
    listed = enumerate_sequences([laws[name] for name in ("base", "temperature", "power")])
    probs = np.exp(listed.log_probs)
    order = np.argsort(-probs[2], kind="stable")
    likely = order[(probs[:, order] >= MIN_BAR).any(axis=0)][:MAX_BARS]
    # One sequence that is left over is shown as itself.
    shown = order if likely.size >= order.size - 1 else likely
    names = [_text(model, listed.sequences[i]) for i in shown]
    columns = [probs[:, i] for i in shown]
    if shown.size < order.size:
        rest = np.setdiff1d(order, shown)
        names.append(f"{two_laws.OTHERS}{rest.size}")
        columns.append(probs[:, rest].sum(axis=1))
    return [
        {
            "model": model.name,
            "label": label(model),
            "alpha": alpha,
            "rank": rank,
            "sequence": name,
            "base": float(base),
            "temperature": float(temperature),
            "power": float(power),
        }
        for rank, (name, (base, temperature, power)) in enumerate(zip(names, columns, strict=True))
    ]


def divergence_rows(model: LoadedModel, alphas: Sequence[float]) -> list[dict[str, Any]]:
    """Both divergences from the power law over alpha, and what the small-alpha law predicts.

    Args:
        model: what MODEL named.
        alphas: exponents above 0.

    Returns:
        Rows of `paper_figures.divergence_against_alpha`.
    """
    layers = unroll(model.table)
    law = small_alpha_law(layers)
    rows: list[dict[str, Any]] = []
    for alpha in alphas:
        laws = _laws(layers, alpha)
        for other, predicted in (
            ("temperature", law.kl_power_temperature(alpha)),
            ("base", law.kl_power_base(alpha)),
        ):
            rows.append(
                {
                    "model": model.name,
                    "label": label(model),
                    "alpha": alpha,
                    "quantity": f"kl_power_{other}",
                    "exact": kl_divergence(laws["power"], laws[other]),
                    "small_alpha_law": predicted,
                    "radius_alpha": 1 + law.radius,
                }
            )
    return rows


def ess_rows(model: LoadedModel, alpha: float, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Effective sample size against length, for importance sampling and for SMC.

    Args:
        model: what MODEL named.
        alpha: exponent above 0.
        lengths: horizons, tokens; those above a tree's own are left out.

    Returns:
        Rows of `paper_figures.ess_against_length`.
    """
    return [
        {
            "model": model.name,
            "label": label(model),
            "alpha": alpha,
            "length": length,
            "method": found.method,
            "proposal_alpha": found.proposal_alpha,
            "log_ess_fraction": -found.log_one_plus_variance,
        }
        for length in _possible(model, lengths)
        for found in variances_at_length(model.table, alpha, length)
        if found.method in ess_against_length.METHODS
    ]


def crossover_rows(model: LoadedModel, alpha: float, longest: int) -> list[dict[str, Any]]:
    """The lengths at which one method overtakes another.

    Args:
        model: what MODEL named.
        alpha: exponent above 0.
        longest: longest horizon looked at, tokens.

    Returns:
        Rows of `paper_figures.ess_against_length`'s second table.
    """
    longest = longest if model.horizon_is_free else min(longest, model.table.horizon)
    found = {pair: crossover_length(model.table, alpha, *pair, longest) for pair in _PAIRS}
    return [
        {
            "model": model.name,
            "label": label(model),
            "alpha": alpha,
            "first": first,
            "second": second,
            "length": float(length),
        }
        for (first, second), length in found.items()
        if length is not None
    ]


def first_token_rows(model: LoadedModel, alphas: Sequence[float]) -> list[dict[str, Any]]:
    """Probability of each first token under each law over alpha.

    Args:
        model: what MODEL named.
        alphas: exponents above 0.

    Returns:
        Rows of `paper_figures.first_token_ranking`, for the tokens that are likeliest under some law.
    """
    layers = unroll(model.table)
    probs = {
        (alpha, name): np.exp(law.log_conditional(0)[0])
        for alpha in alphas
        for name, law in _laws(layers, alpha).items()
    }
    peaks = np.max(list(probs.values()), axis=0)
    kept = np.sort(np.argsort(-peaks, kind="stable")[:MAX_FIRST_TOKENS])
    return [
        {
            "model": model.name,
            "label": label(model),
            "alpha": alpha,
            "token": model.token_labels[token],
            "law": name,
            "probability": float(row[token]),
        }
        for (alpha, name), row in probs.items()
        for token in kept
        if peaks[token] > 0
    ]


def label(model: LoadedModel) -> str:
    """How a model is called in figures.

    Args:
        model: what MODEL named.

    Returns:
        A few words.
    """
    return LABELS.get(model.name, model.name.removeprefix("builtin:"))


def figure_schema(name: str) -> pa.Schema:
    """The schema of a figure's table.

    Args:
        name: of the table.

    Returns:
        Its schema.
    """
    layouts = {
        "two_laws": two_laws.LAYOUT,
        "divergence_against_alpha": divergence_against_alpha.LAYOUT,
        "ess_against_length": ess_against_length.LAYOUT,
        "crossover_lengths": ess_against_length.CROSSOVER_LAYOUT,
        "first_token_ranking": first_token_ranking.LAYOUT,
    }
    return schema(layouts[name])


def _laws(layers: Layers, alpha: float) -> dict[str, Law]:
    return {
        "base": base_law(layers),
        "temperature": temperature_law(layers, alpha),
        "power": power_law(layers, alpha).law,
    }


def _first_tokens(model: LoadedModel, law: Law) -> list[tuple[str, float]]:
    row = np.exp(law.log_conditional(0)[0])
    return [(model.token_labels[v], float(row[v])) for v in np.flatnonzero(row > 0)]


def _possible(model: LoadedModel, lengths: Sequence[int]) -> list[int]:
    if model.horizon_is_free:
        return list(lengths)
    return [length for length in lengths if length <= model.table.horizon]


def _text(model: LoadedModel, tokens: tuple[int, ...]) -> str:
    return " ".join(model.token_labels[token] for token in tokens)

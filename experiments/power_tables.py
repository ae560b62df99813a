"""The tables behind the figures of the power-versus-temperature demonstration: exact numbers, ready to be drawn.

Each function computes one table for one model; the columns are those of the figure that draws it.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.model_argument import LoadedModel
from experiments.power_models import label, three_laws
from theory.exact.divergences import kl_divergence
from theory.exact.enumeration import enumerate_sequences
from theory.exact.layers import num_sequences, unroll
from theory.exact.length_scaling import METHODS, crossover_length, variances_at_length
from theory.exact.small_alpha import small_alpha_law

MAX_LISTED = 100_000  # sequences that are enumerated for a table
MAX_BARS = 14  # sequences shown one by one, each with MIN_BAR under some law; the rest is summed
MIN_BAR = 0.01
MAX_FIRST_TOKENS = 6  # first tokens followed over alpha

# The best temperature is never behind the other two.
_NEVER_CROSS = {
    frozenset({"importance_best", other}) for other in ("importance_base", "importance_temperature")
}


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
    laws = three_laws(layers, alpha)
    listed = enumerate_sequences([laws[name] for name in ("base", "temperature", "power")])
    probs = np.exp(listed.log_probs)
    order = np.argsort(-probs[2], kind="stable")
    likely = order[(probs[:, order] >= MIN_BAR).any(axis=0)][:MAX_BARS]
    # One sequence that is left over is shown as itself.
    shown = order if likely.size >= order.size - 1 else likely
    lines = [(_text(model, listed.sequences[i]), 1, probs[:, i]) for i in shown]
    if shown.size < order.size:
        rest = np.setdiff1d(order, shown)
        lines.append((f"other {rest.size} sequences", rest.size, probs[:, rest].sum(axis=1)))
    return [
        {
            "model": model.name,
            "label": label(model),
            "alpha": alpha,
            "rank": rank,
            "sequence": text,
            "num_sequences": count,
            "base": float(base),
            "temperature": float(temperature),
            "power": float(power),
        }
        for rank, (text, count, (base, temperature, power)) in enumerate(lines)
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
        laws = three_laws(layers, alpha)
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
        lengths: horizons, tokens; in their place the own one of a model whose horizon cannot be raised above it.

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
    pairs = [
        pair for pair in itertools.permutations(METHODS, 2) if frozenset(pair) not in _NEVER_CROSS
    ]
    found = {pair: crossover_length(model.table, alpha, *pair, longest) for pair in pairs}
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
        for name, law in three_laws(layers, alpha).items()
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


def _possible(model: LoadedModel, lengths: Sequence[int]) -> list[int]:
    if model.horizon_is_free:
        return list(lengths)
    return sorted({min(length, model.table.horizon) for length in lengths})


def _text(model: LoadedModel, tokens: tuple[int, ...]) -> str:
    return " ".join(model.token_labels[token] for token in tokens)

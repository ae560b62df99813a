"""What base samples say of the power law near alpha = 1: the second-order law, on any model that gives its next-token laws.

Rows are drawn from the base model and read once more, so that every step's entropy and central moments are recorded
(`theory.estimators.small_alpha`). Nothing here needs the model to be a table.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from experiments.progress import say, track
from experiments.samplers.batches import MAX_IDS, id_batches
from experiments.terminal import make_table, print_table, report_console
from models.tasks.task import Sequences
from theory.errors import InvalidInput
from theory.estimators.small_alpha import (
    MIN_DRAWS,
    Estimate,
    SmallAlphaEstimate,
    StepMoments,
    estimate_from_draws,
    estimate_over_prompts,
    predict,
    predicted_radius,
    record_step_moments,
)
from theory.generation import generate, start
from theory.keys import Role, fold_rows, role_key, row_keys
from theory.protocols import SequenceModel

LEVEL = 0.95
_QUANTITIES = ("kl_power_temperature", "kl_power_base")
_PROPOSALS = ("temperature", "base")
_MAX_BATCH = 4096
# Numbers of the laws of a batch, were they all held at once.
_BATCH_NUMBERS = 1 << 24


def from_samples(
    model: SequenceModel,
    prompts: Int[np.ndarray, "B P"],
    prompt_lengths: Int[np.ndarray, " B"],
    alphas: tuple[float, ...],
    num_samples: int,
    seed: int,
    batch_size: int | None = None,
) -> dict[str, Any]:
    """Draw and predict.

    Args:
        model: any.
        prompts: [B, P] right-padded; of one prompt the intervals are over its draws, of several over prompts.
        prompt_lengths: [B].
        alphas: exponents above 0.
        num_samples: N draws of each prompt, at least 3.
        seed: of the draws and of the resamples.
        batch_size: rows side by side; what fits by default. The result does not depend on it, but for rounding.

    Returns:
        {"from_samples": what was drawn, "results": [one block per alpha]}, each number with its interval.

    Raises:
        InvalidInput: fewer than three draws or more than there are row ids, or an alpha that is no exponent.
    """
    if num_samples < MIN_DRAWS:
        raise InvalidInput(f"--from-samples {num_samples}: needs at least {MIN_DRAWS} draws")
    if num_samples * len(prompts) > MAX_IDS:
        raise InvalidInput(
            f"--from-samples {num_samples}: {num_samples * len(prompts)} draws in all, at most {MAX_IDS}, give fewer"
        )
    sums = _drawn_sums(model, prompts, prompt_lengths, num_samples, seed, batch_size)
    rng = np.random.default_rng(seed)
    if len(prompts) == 1:
        estimate = estimate_from_draws(rng, StepMoments(*(part[0] for part in sums)))
    else:
        by_prompt = [StepMoments(*(part[i] for part in sums)) for i in range(len(prompts))]
        estimate = estimate_over_prompts(rng, by_prompt)
    about = {
        "num_samples": num_samples,
        "num_prompts": len(prompts),
        "seed": seed,
        "entropy": float(sums.entropy.mean()),
        "variance_base_logp": estimate.law.variance_log_prob,
        "variance_entropy_sum": estimate.law.variance_entropy_sum,
        "interval": {
            "level": LEVEL,
            "method": "percentile bootstrap",
            "unit": estimate.unit,
            "num_units": estimate.num_units,
        },
    }
    return {"from_samples": about, "results": [_block(estimate, alpha) for alpha in alphas]}


def show(result: dict[str, Any]) -> None:
    """Estimates and intervals on stdout, one column per alpha, and on stderr what lies outside the radius.

    Args:
        result: of `from_samples`, and "model" with its name.
    """
    blocks, about = result["results"], result["from_samples"]
    table = make_table("quantity", *(f"alpha {block['alpha']:g}" for block in blocks))
    for key, value in blocks[0].items():
        if isinstance(value, dict):
            table.add_row(key, *(_cell(block[key]) for block in blocks))
    title = (
        f"{result['model']['name']}: small-alpha law from {about['num_samples']} base samples of "
        f"{about['num_prompts']} prompt(s), 95 % over {about['interval']['unit']}"
    )
    print_table(report_console(), title, table)
    for block in blocks:
        if not block["inside_radius"]:
            radius = block["radius"]["estimate"]
            say(f"alpha {block['alpha']:g}: beyond 1 +- {radius:.3g}, take its column for no guide")


def _cell(value: dict[str, float]) -> str:
    return f"{value['estimate'] + 0.0:.4g} [{value['low'] + 0.0:.4g}, {value['high'] + 0.0:.4g}]"


def _block(estimate: SmallAlphaEstimate, alpha: float) -> dict[str, Any]:
    found = predict(estimate, alpha, LEVEL)
    block: dict[str, Any] = {"alpha": alpha}
    for key in _QUANTITIES:
        block[key] = _numbers(getattr(found, key))
    for proposal in _PROPOSALS:
        log_key = f"log_ess_fraction_from_{proposal}"
        block[log_key] = _numbers(getattr(found, log_key))
        ratios = {name: float(np.exp(value)) for name, value in block[log_key].items()}
        block[log_key.removeprefix("log_")] = ratios
    block["radius"] = _numbers(predicted_radius(estimate, LEVEL))
    return block | {"inside_radius": found.is_inside_radius}


def _numbers(found: Estimate) -> dict[str, float]:
    return {
        "estimate": found.value,
        "low": found.interval.low,
        "high": found.interval.high,
    }


def _drawn_sums(
    model: SequenceModel,
    prompts: Int[np.ndarray, "B P"],
    prompt_lengths: Int[np.ndarray, " B"],
    num_samples: int,
    seed: int,
    batch_size: int | None,
) -> StepMoments:
    """[B, N] float64 sums of every draw. Draw n of prompt b is row b N + n, whatever the batches."""
    num_rows = len(prompts) * num_samples
    fits = _BATCH_NUMBERS // (model.horizon * model.vocab_size)
    size = min(num_rows, batch_size or max(1, min(_MAX_BATCH, fits)))
    key, read = jax.random.key(seed), Sequences(jnp.asarray(prompts), jnp.asarray(prompt_lengths))
    batches = id_batches(model, read, num_samples, size)
    found = [
        np.stack(
            [
                np.asarray(part).sum(axis=1, dtype=np.float64)
                for part in _draw(key, batch.model, *batch.prompts, batch.ids)
            ]
        )
        for batch in track(batches, "base samples", total=-(-num_rows // size))
    ]
    return StepMoments(*np.concatenate(found, axis=1)[:, :num_rows].reshape(4, -1, num_samples))


@jax.jit
def _draw(
    key: Key[Array, ""],
    model: SequenceModel,
    prompts: Int[Array, "B P"],
    prompt_lengths: Int[Array, " B"],
    rows: Int[Array, " B"],
) -> StepMoments:
    """Draws of `rolloutlab sample --method ancestral` with the same seed, and their steps."""
    keys = fold_rows(row_keys(role_key(key, Role.TOKEN), rows), 0)
    begin = start(model, prompts, prompt_lengths)
    limits = jnp.full(rows.shape, model.horizon, jnp.int32)
    drawn = generate(keys, model, (), 1.0, begin, limits).trajectories
    return record_step_moments(model, prompts, prompt_lengths, drawn.tokens, drawn.lengths)

"""What a trained model is worth, on prompts that it has not seen."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int32

from experiments import tables
from experiments.pretraining.settings import Training
from models.tasks import noisy_chain
from models.tasks.noisy_chain_laws import answer_law
from models.tasks.registry import task
from models.tasks.task import Sequences
from models.training.evaluation import countdown_truth, held_out_losses, sample_verdicts, vote
from models.transformer.model import Transformer
from theory.estimators.bootstrap import mean_interval, ratio_interval, resample_counts
from theory.estimators.interval import Interval

Values = Float64[np.ndarray, " n"]

SCHEMA = tables.schema(quantity=str, value=float, low=float, high=float, means=str)

DEMONSTRATIONS = "nats a token, demonstrations of the test prompts"
EXACT = "exact for each test prompt"
SAMPLED = "from samples"
LAW = "exact for each test prompt, of the law that made the data"

_COUNTDOWN: Mapping[str, int] = {"countdown-3": 3, "countdown-4": 4}
_NOISE: Mapping[str, tuple[float, ...]] = {
    "noisy-chain": noisy_chain.UNIFORM_NOISE,
    "noisy-chain-biased": noisy_chain.BIASED_NOISE,
}


def evaluate(model: Transformer, training: Training) -> pa.Table:
    """Judge a model by the first test prompts of its task.

    Intervals are 95 % over prompts, by the bootstrap; the samples of a prompt stay together. Countdown's pass@1 is a sum over all well-formed
    completions, and so exact for these prompts. For the noisy chains the law that made their data is known: a model that
    has learned it is right as often as that law is on the same prompts, and its vote comes to what that law's vote comes to.

    Args:
        model: the transformer.
        training: how it was trained.

    Returns:
        A row for each quantity.
    """
    learned = task(training.task)
    prompts = learned.prompts("test", training.test_prompts, training.seed)
    samples = sample_verdicts(model, learned, prompts, training.samples, training.seed)
    rows = [
        _loss_row(*held_out_losses(model, learned, training.seed, training.test_prompts)),
        _row("pass@1", np.asarray(samples.correct.mean(axis=1)), SAMPLED),
        _row(
            f"pass@{training.samples}", np.asarray(samples.correct.any(axis=1), np.float64), SAMPLED
        ),
        _row(f"majority@{training.samples}", vote(samples), SAMPLED),
    ]
    if training.task in _COUNTDOWN:
        truth = countdown_truth(model, _COUNTDOWN[training.task], prompts)
        rows += [
            _row("exact pass@1", truth.right, EXACT),
            _row("probability of a well-formed completion", truth.well_formed, EXACT),
        ]
    if training.task in _NOISE:
        right, votes = chain_truth(_NOISE[training.task], prompts)
        rows += [
            _row("pass@1 of the data", right, LAW),
            _row("majority@infinity of the data", votes, LAW),
        ]
    return tables.from_rows(SCHEMA, rows)


def chain_truth(noise: tuple[float, ...], prompts: Sequences) -> tuple[Values, Values]:
    """How right the law behind a noisy chain's data is.

    Args:
        noise: of a step.
        prompts: of the chain.

    Returns:
        Of each prompt the probability of the right answer, and what a vote over ever more samples comes to: whether the most likely
        answer is right; answers within 1e-12 of it tie with it and share the prompt evenly.
    """
    empty = Sequences(prompts.tokens[:, :0], jnp.zeros_like(prompts.lengths))
    law = answer_law(noise, prompts, empty)
    answers = noisy_chain.answers(prompts, noisy_chain.right_completions(prompts))
    is_right = np.asarray(answers)[:, None] == np.arange(law.shape[1])
    is_top = law > law.max(axis=1, keepdims=True) - 1e-12
    return (law * is_right).sum(axis=1), (is_top & is_right).sum(axis=1) / is_top.sum(axis=1)


def _loss_row(losses: Values, num_tokens: Values) -> dict[str, Any]:
    interval = ratio_interval(_resamples(losses), losses, num_tokens)
    return _cells("loss", losses.sum() / num_tokens.sum(), interval, DEMONSTRATIONS)


def _row(quantity: str, values: Values, means: str) -> dict[str, Any]:
    return _cells(quantity, values.mean(), mean_interval(_resamples(values), values), means)


def _resamples(values: Values) -> Int32[np.ndarray, "R n"]:
    return resample_counts(np.random.default_rng(0), len(values))


def _cells(quantity: str, number: float, interval: Interval, means: str) -> dict[str, Any]:
    ends = {"low": interval.low, "high": interval.high}
    return {"quantity": quantity, "value": number, **ends, "means": means}

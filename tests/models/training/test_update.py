"""A step of training: what it minimises, how micro-batches weigh, and AdamW by hand."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from models.tasks.task import Sequences
from models.training.loop import training_steps
from models.training.loss import loss_sums
from models.training.optimiser import OptimiserSettings, learning_rate, make_optimiser
from models.training.packing import PackedRows, pack
from models.training.update import TrainingState, compile_update, initial_state, training_step
from models.transformer import Transformer, TransformerConfig, random_transformer
from theory.errors import InvalidInput

CONFIG = TransformerConfig(
    vocab_size=7,
    width=8,
    num_layers=1,
    num_heads=2,
    num_key_value_heads=2,
    head_dim=4,
    hidden=8,
    context=16,
    eos=(6,),
)
SETTINGS = OptimiserSettings(
    learning_rate=0.05, warmup_steps=2, final_share=0.25, clip_norm=0.1, weight_decay=0.3
)


def model() -> Transformer:
    return random_transformer(jax.random.key(3), CONFIG, 4)


def batch(completion_lengths: list[int], num_micro_batches: int, seed: int = 0) -> PackedRows:
    """One example a row, in micro-batches."""
    rng, num_rows = np.random.default_rng(seed), len(completion_lengths)
    prompts = Sequences(
        jnp.asarray(rng.integers(1, 6, (num_rows, 3)), jnp.int32), jnp.full(num_rows, 3, jnp.int32)
    )
    completions = Sequences(
        jnp.asarray(rng.integers(1, 7, (num_rows, 4)), jnp.int32),
        jnp.asarray(completion_lengths, jnp.int32),
    )
    rows = pack(prompts, completions, 0, num_rows, 6)
    shape = (num_micro_batches, num_rows // num_micro_batches, 6)
    return PackedRows(*(part.reshape(shape) for part in rows))


def assert_same(ours: Any, theirs: Any, tolerance: float) -> None:
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, atol=tolerance, rtol=tolerance)


@pytest.mark.slow
def test_micro_batches_weigh_by_their_tokens() -> None:
    lengths = [4, 4, 4, 3, 1, 1, 2, 1]
    optimiser = optax.sgd(1.0)  # moves by the gradient itself
    results = [
        jax.jit(training_step, static_argnums=0)(
            optimiser, model(), initial_state(model(), optimiser), batch(lengths, parts)
        )
        for parts in (1, 2, 8)
    ]
    for state, info in results[1:]:
        assert_same(state.params, results[0][0].params, 1e-6)
        assert_same(info, results[0][1], 1e-6)
    # What a mean of the means of two micro-batches would be, on the same examples.
    halves = [
        loss_sums(model().params, model(), PackedRows(*(part[i] for part in batch(lengths, 2))))
        for i in range(2)
    ]
    mean_of_means = sum(float(loss) / int(count) for loss, count in halves) / 2
    assert abs(mean_of_means - float(results[0][1].loss)) > 1e-2


def by_hand(settings: OptimiserSettings, num_steps: int, gradients: list[Any], params: Any) -> Any:
    """Clipped AdamW in float64, one leaf after the other."""
    moments = [(np.zeros(leaf.shape), np.zeros(leaf.shape)) for leaf in params]
    params = [np.asarray(leaf, np.float64) for leaf in params]
    for step, slopes in enumerate(gradients):
        if step < settings.warmup_steps:
            rate = settings.learning_rate * step / settings.warmup_steps
        else:
            part = (step - settings.warmup_steps) / (num_steps - settings.warmup_steps)
            cosine = (1 + math.cos(math.pi * part)) / 2
            rate = settings.learning_rate * (
                settings.final_share + (1 - settings.final_share) * cosine
            )
        slopes = [np.asarray(leaf, np.float64) for leaf in slopes]
        norm = math.sqrt(sum(float((leaf**2).sum()) for leaf in slopes))
        scale = min(1.0, settings.clip_norm / norm)
        for index, slope in enumerate(slopes):
            first, second = moments[index]
            first = settings.beta1 * first + (1 - settings.beta1) * scale * slope
            second = settings.beta2 * second + (1 - settings.beta2) * (scale * slope) ** 2
            moments[index] = first, second
            move = first / (1 - settings.beta1 ** (step + 1))
            move = move / (np.sqrt(second / (1 - settings.beta2 ** (step + 1))) + 1e-8)
            decay = settings.weight_decay * params[index] if slope.ndim > 1 else 0.0
            params[index] = params[index] - rate * (move + decay)
    return params


def test_optimiser_is_clipped_adamw_with_warm_up_and_cosine() -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 2), (4,)]
    params = [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]
    # Of very different lengths: some are clipped, some are not, and Adam remembers which.
    gradients = [
        [jnp.asarray(size * rng.normal(size=shape), jnp.float32) for shape in shapes]
        for size in (1.0, 0.01, 5.0, 0.02, 0.5, 0.01)
    ]
    optimiser = make_optimiser(SETTINGS, len(gradients))
    state, ours = optimiser.init(params), params
    for slopes in gradients:
        moves, state = optimiser.update(slopes, state, ours)
        ours = optax.apply_updates(ours, moves)
    assert_same(ours, by_hand(SETTINGS, len(gradients), gradients, params), 1e-5)


def test_learning_rate_ends_where_it_should() -> None:
    rate = learning_rate(SETTINGS, 10)
    assert float(jnp.asarray(rate(0))) == 0.0
    assert float(jnp.asarray(rate(1))) == pytest.approx(SETTINGS.learning_rate / 2)
    assert float(jnp.asarray(rate(2))) == pytest.approx(SETTINGS.learning_rate)
    assert float(jnp.asarray(rate(6))) == pytest.approx(SETTINGS.learning_rate * 0.625)
    assert float(jnp.asarray(rate(10))) == pytest.approx(SETTINGS.learning_rate * 0.25)


def test_what_a_step_shows_is_of_the_parameters_before_it() -> None:
    optimiser, rows = optax.sgd(1.0), batch([4, 2], 1)
    before = initial_state(model(), optimiser)
    after, info = jax.jit(training_step, static_argnums=0)(optimiser, model(), before, rows)
    flat = PackedRows(*(part[0] for part in rows))
    gradient = jax.jit(jax.value_and_grad(loss_sums, has_aux=True))
    (loss, count), slope = gradient(before.params, model(), flat)
    assert float(info.loss) == pytest.approx(float(loss) / 6, rel=1e-6)
    assert int(info.num_tokens) == int(count) == 6
    mean = jax.tree.map(lambda leaf: leaf / 6, slope)
    assert float(info.gradient_norm) == pytest.approx(float(optax.tree.norm(mean)), rel=1e-5)
    assert_same(after.params, jax.tree.map(jnp.subtract, before.params, mean), 1e-6)
    assert int(after.step) == 1


def test_training_learns_and_a_stream_goes_on_where_a_state_stands() -> None:
    settings = dataclasses.replace(SETTINGS, clip_norm=1.0, weight_decay=0.0)
    optimiser = make_optimiser(settings, 30)
    update = compile_update(optimiser, model())
    asked: list[int] = []

    def batch_at(step: int) -> PackedRows:
        asked.append(step)
        return batch([4, 3, 2, 4], 2, seed=step % 2)

    def run(state: TrainingState, num_steps: int) -> tuple[TrainingState, list[float]]:
        losses: list[float] = []
        for now, info in training_steps(update, batch_at, state, num_steps):
            losses.append(float(info.loss))
            state = now
        return state, losses

    whole, losses = run(initial_state(model(), optimiser), 30)
    assert asked == list(range(30))
    assert 0 < losses[-1] < losses[0] / 3
    part, first = run(initial_state(model(), optimiser), 11)
    rest, last = run(part, 30)
    assert asked[30:] == list(range(30))
    assert first + last == losses
    for ours, theirs in zip(jax.tree.leaves(rest), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_step_consumes_its_state_and_not_the_model() -> None:
    optimiser, source = optax.sgd(1.0), model()
    state = initial_state(source, optimiser)
    compile_update(optimiser, source)(state, batch([4, 2], 1))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(source.params))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup_steps": 10}, r"warmup_steps 10: must be in 0\.\.9"),
        ({"learning_rate": 0.0}, "learning_rate 0.0: must be above 0"),
        ({"clip_norm": math.inf}, "clip_norm inf: must be above 0 and finite"),
        ({"final_share": 1.5}, r"final_share 1\.5"),
        ({"weight_decay": -1.0}, "weight_decay -1.0"),
        ({"beta1": 1.0}, "beta1 1.0"),
        ({"beta2": -0.1}, "beta2 -0.1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_optimiser(dataclasses.replace(SETTINGS, **changes), 10)


def test_no_steps_are_refused() -> None:
    with pytest.raises(InvalidInput, match="steps 0"):
        make_optimiser(SETTINGS, 0)

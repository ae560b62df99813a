"""AdamW with warm-up, cosine decay and a bound on the norm of the gradient."""

import dataclasses

import jax
import optax
from jaxtyping import PyTree

from theory.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class OptimiserSettings:
    """How parameters move."""

    learning_rate: float = 4e-3
    """Peak of the learning rate."""

    warmup_steps: int = 50
    """Steps over which it rises from 0 in a line; from there it falls as half a cosine to the end of training."""

    final_share: float = 0.02
    """Share of the peak at which it ends."""

    clip_norm: float = 1.0
    """Most that the global norm of the gradient may be; longer ones are shortened."""

    weight_decay: float | None = None
    """Decoupled, on matrices only: scales of norms and biases do not decay. By default that of the task, and 0 where there is no task."""

    beta1: float = 0.9
    """Adam's decay of the first moment."""

    beta2: float = 0.99
    """Adam's decay of the second moment."""


def check_optimiser(settings: OptimiserSettings, num_steps: int) -> None:
    """Refuse settings that make no sense.

    Args:
        settings: any.
        num_steps: of the training.

    Raises:
        InvalidInput: names the setting and the mend.
    """
    if num_steps < 1:
        raise InvalidInput(f"steps {num_steps}: must be at least 1")
    if not 0 <= settings.warmup_steps < num_steps:
        raise InvalidInput(
            f"warmup_steps {settings.warmup_steps}: must be in 0..{num_steps - 1}, below the steps of training"
        )
    for name in ("learning_rate", "clip_norm"):
        if not 0 < getattr(settings, name) < float("inf"):
            raise InvalidInput(f"{name} {getattr(settings, name)}: must be above 0 and finite")
    if not 0 <= settings.final_share <= 1:
        raise InvalidInput(f"final_share {settings.final_share}: must be in 0..1")
    if settings.weight_decay is not None and not 0 <= settings.weight_decay < float("inf"):
        raise InvalidInput(f"weight_decay {settings.weight_decay}: must be at least 0 and finite")
    for name in ("beta1", "beta2"):
        if not 0 <= getattr(settings, name) < 1:
            raise InvalidInput(f"{name} {getattr(settings, name)}: must be at least 0 and below 1")


def learning_rate(settings: OptimiserSettings, num_steps: int) -> optax.Schedule:
    """The learning rate of step s, s = 0, 1, ..

    With peak L, warm-up w, final share f and n steps it is L s / w for s < w, and from there
    L (f + (1 - f) (1 + cos(pi (s - w) / (n - w))) / 2).

    Args:
        settings: see there.
        num_steps: n.

    Returns:
        From a step to a rate.
    """
    return optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=settings.learning_rate,
        warmup_steps=settings.warmup_steps,
        decay_steps=num_steps,
        end_value=settings.learning_rate * settings.final_share,
    )


def make_optimiser(settings: OptimiserSettings, num_steps: int) -> optax.GradientTransformation:
    """Clip, then AdamW (Loshchilov and Hutter 2019).

    Args:
        settings: see there.
        num_steps: of the training, for the schedule.

    Returns:
        Pure functions over pytrees.

    Raises:
        InvalidInput: settings that make no sense.
    """
    check_optimiser(settings, num_steps)
    adamw = optax.adamw(
        learning_rate(settings, num_steps),
        b1=settings.beta1,
        b2=settings.beta2,
        weight_decay=settings.weight_decay or 0.0,
        mask=_matrices,
    )
    chain = optax.chain(optax.clip_by_global_norm(settings.clip_norm), adamw)

    def update(
        updates: PyTree, state: PyTree, params: PyTree | None = None
    ) -> tuple[PyTree, PyTree]:
        # Inside optax a float is raised to an integer power.
        with jax.numpy_dtype_promotion("standard"):
            return chain.update(updates, state, params)

    return optax.GradientTransformation(chain.init, update)


def _matrices(params: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)

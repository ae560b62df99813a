"""A checkpoint is there as a whole or not at all."""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from models.training.checkpoints import TrainingCheckpoints
from models.training.optimiser import OptimiserSettings, make_optimiser
from models.training.update import TrainingState, initial_state
from models.transformer import TransformerConfig, random_transformer
from theory.errors import InvalidInput

CONFIG = TransformerConfig(
    vocab_size=5,
    width=8,
    num_layers=1,
    num_heads=2,
    num_key_value_heads=1,
    head_dim=4,
    hidden=8,
    context=16,
    eos=(4,),
)
OPTIMISER = make_optimiser(OptimiserSettings(warmup_steps=1), 10)


def state(step: int) -> TrainingState:
    """A state whose every number is another, and other at every step."""
    model = random_transformer(jax.random.key(step), CONFIG, 4)
    start = initial_state(model, OPTIMISER)
    moved = jax.tree.map(lambda leaf: leaf + (step / 7 if leaf.ndim else step), start)
    moved = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), moved, start)
    return moved._replace(step=jnp.asarray(step, jnp.int32))


def assert_same_bits(ours: TrainingState | None, theirs: TrainingState) -> None:
    assert ours is not None
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_newest_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    checkpoints = TrainingCheckpoints(tmp_path / "states")
    assert checkpoints.latest(state(0)) is None
    for step in (3, 5, 40):
        checkpoints.save(step, state(step))
    checkpoints.close()
    again = TrainingCheckpoints(tmp_path / "states")
    assert_same_bits(again.latest(state(0)), state(40))
    again.close()
    kept = {path.name for path in (tmp_path / "states").iterdir() if path.name.isdigit()}
    assert kept == {"5", "40"}


def test_half_a_checkpoint_is_none(tmp_path: Path) -> None:
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(3, state(3))
    checkpoints.save(5, state(5))
    checkpoints.close()
    # Orbax writes under such a name and renames at the end: this is what a killed process leaves.
    half = tmp_path / "9.orbax-checkpoint-tmp"
    shutil.copytree(tmp_path / "5", half)
    next(path for path in half.rglob("manifest.ocdbt")).unlink()
    again = TrainingCheckpoints(tmp_path)
    assert_same_bits(again.latest(state(0)), state(5))
    again.save(9, state(9))
    assert_same_bits(again.latest(state(0)), state(9))
    again.close()
    assert not half.exists()


def test_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(5, state(5))
    # Damage that shows before arrays are read: reads under way would complain after the test.
    shutil.rmtree(tmp_path / "5" / "default")
    with pytest.raises(InvalidInput, match=r"5: this checkpoint cannot be read .* --force"):
        checkpoints.latest(state(5))
    checkpoints.close()


def test_a_bit_that_changed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = TrainingCheckpoints(tmp_path)
    checkpoints.save(5, state(5))
    restore = ocp.CheckpointManager.restore
    names: list[str] = []

    def restore_with_a_flipped_bit(manager: Any, step: int, *, args: Any) -> dict[str, Any]:
        stored: dict[str, Any] = dict(restore(manager, step, args=args))
        names[:] = sorted(stored)
        leaf = np.asarray(stored[names[damaged]])
        data = bytearray(leaf.tobytes())
        data[-1] ^= 1
        return stored | {names[damaged]: np.frombuffer(data, leaf.dtype).reshape(leaf.shape)}

    damaged = 0
    monkeypatch.setattr(ocp.CheckpointManager, "restore", restore_with_a_flipped_bit)
    while damaged == 0 or damaged < len(names):
        with pytest.raises(InvalidInput, match=r"5: this checkpoint has changed .* --force"):
            checkpoints.latest(state(0))
        damaged += 1
    assert damaged > 10
    checkpoints.close()

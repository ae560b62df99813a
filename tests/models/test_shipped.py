"""The trained models that come with the project: small, whole, and worth what their cards say."""

import json

import jax
import numpy as np
import pytest

from models.pretrained.load import load_folder
from models.shipped import MODELS, folder
from models.tasks.registry import task
from models.training.evaluation import countdown_truth, sample_verdicts, vote

MOST_BYTES = 1_000_000


def recorded(name: str, quantity: str) -> float:
    """What the training run measured."""
    about = json.loads((folder(name) / "config.json").read_text())["about"]
    (row,) = [row for row in about["evaluation"] if row["quantity"] == quantity]
    assert f"| {quantity} | {row['value']:.3f} |" in (folder(name) / "README.md").read_text()
    return row["value"]


def test_there_is_a_folder_for_each_name() -> None:
    found = {path.parent.name for path in folder("").glob("*/model.safetensors")}
    assert found == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_are_small_and_speak_the_tokens_of_their_task(name: str) -> None:
    shipped = load_folder(folder(name))
    learned = task(name)
    assert shipped.about["task"] == name
    assert shipped.model.vocab_size == len(learned.labels)
    assert shipped.model.eos == (learned.eos,)
    assert shipped.model.horizon == learned.horizon
    assert sum(leaf.size for leaf in jax.tree.leaves(shipped.model.params)) == 101_696
    assert sum(path.stat().st_size for path in folder(name).iterdir()) < MOST_BYTES


def test_countdown_is_right_as_often_as_its_card_says() -> None:
    shipped = load_folder(folder("countdown-3"))
    truth = countdown_truth(shipped.model, 3, task("countdown-3").prompts("test", 256, 0))
    assert truth.right.mean() == pytest.approx(recorded("countdown-3", "exact pass@1"), abs=1e-4)
    assert 0.4 < truth.right.mean() < 0.6
    assert (truth.right <= truth.well_formed).all()
    assert (truth.well_formed <= 1 + 1e-5).all()


@pytest.mark.parametrize("name", ["noisy-chain", "noisy-chain-biased"])
def test_chains_answer_and_vote_as_the_law_of_their_data(name: str) -> None:
    model = load_folder(folder(name)).model
    prompts = task(name).prompts("test", 64, 0)
    samples = sample_verdicts(model, task(name), prompts, 32, 0)
    # The first 64 of the prompts on the card, with their own draws: within the spread between prompts.
    spread = 4 * np.asarray(samples.correct.mean(axis=1)).std() / 8
    assert abs(samples.correct.mean() - recorded(name, "pass@1")) < spread
    assert abs(recorded(name, "pass@1") - recorded(name, "pass@1 of the data")) < 0.03
    # Votes make one model always right and the other almost never.
    assert (vote(samples).mean() > 0.95) == (name == "noisy-chain")
    assert (vote(samples).mean() < 0.15) == (name == "noisy-chain-biased")

"""Log probs of every sequence of the reference cases, computed elsewhere in rational arithmetic."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tabular.context_model import ContextModel
from models.tabular.files import read_model
from tests.models.tabular.naive import sequences
from theory.conformance.operations import token_and_log_prob

FOLDER = Path(__file__).resolve().parents[2] / "data" / "reference"


def tokens_of(prefix: str) -> tuple[int, ...]:
    return tuple(map(int, prefix.split()))


def positive(case: dict[str, Any]) -> dict[tuple[int, ...], float]:
    return {tokens_of(key): p for key, p in case["base"].items() if p > 0}


def block(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """All sequences of a case, padded, and their lengths."""
    base = positive(case)
    tokens = np.zeros((len(base), case["max_length"]), np.int32)
    for row, sequence in enumerate(base):
        tokens[row, : len(sequence)] = sequence
    return tokens, np.array([len(sequence) for sequence in base], np.int32)


@pytest.fixture(scope="module")
def log_probs(reference_cases: list[dict[str, Any]]) -> list[np.ndarray]:
    """Of every sequence of every case, in one compiled program."""
    files = [read_model(FOLDER / f"case-{number}.json") for number in range(len(reference_cases))]
    models = [ContextModel.from_table(file.table) for file in files]

    def score(model: ContextModel, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        state, _ = model.init(tokens[:, :0], jnp.zeros_like(lengths))
        return model.extend(state, tokens, lengths, token_and_log_prob)[1]["log_prob"]

    @jax.jit
    def score_all(models: list[ContextModel], blocks: list[Any]) -> list[jax.Array]:
        return [score(model, *block) for model, block in zip(models, blocks, strict=True)]

    scored = score_all(models, [block(case) for case in reference_cases])
    return [np.asarray(each).sum(axis=1, dtype=np.float64) for each in scored]


@pytest.mark.parametrize("number", range(10))
def test_batched_model_in_single_precision(
    number: int, reference_cases: list[dict[str, Any]], log_probs: list[np.ndarray]
) -> None:
    truth = np.log(list(positive(reference_cases[number]).values()))
    assert log_probs[number] == pytest.approx(truth, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("number", range(10))
def test_read_model_in_double_precision(number: int, reference_cases: list[dict[str, Any]]) -> None:
    case = reference_cases[number]
    file = read_model(FOLDER / f"case-{number}.json")
    found = {tokens: np.exp(value) for tokens, value in sequences(file.table).items()}
    assert found == pytest.approx(positive(case), rel=1e-14)
    assert file.kind == case["kind"] and file.horizon_is_free == (case["kind"] == "markov")
    if file.kind == "markov":
        assert len(file.table.log_probs) == case["vocab_size"] + 1

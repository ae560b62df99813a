import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.model_argument import load_model
from models.tabular.catalogue import BUILTINS
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable

TREE: dict[str, Any] = {
    "kind": "tree",
    "vocab_size": 2,
    "max_length": 3,
    "eos": None,
    "conditionals": {
        "": ["1/4", "3/4"],
        "0": [0.5, 0.5],
        "1": [0.9, 0.1],
        "0 0": [0.2, 0.8],
        "0 1": [0.3, 0.7],
        "1 0": [0.4, 0.6],
        "1 1": [1, 0],
    },
}
CHAIN: dict[str, Any] = {
    "kind": "markov",
    "vocab_size": 3,
    "max_length": 4,
    "eos": 2,
    "initial": [0.5, 0.3, 0.2],
    "transition": [[0.1, 0.6, 0.3], [0.0, 0.5, 0.5], None],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tree.json").write_text(json.dumps(TREE))
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))
    (tmp_path / "checkpoint").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def first_law(table: ContextTable) -> list[float]:
    return np.exp(table.log_probs[table.initial]).tolist()


@pytest.mark.parametrize("name", BUILTINS)
def test_every_built_in_model_loads(name: str) -> None:
    model = load_model(f"builtin:{name}")
    assert model.name == f"builtin:{name}"
    assert len(model.token_labels) == model.table.vocab_size
    assert model.horizon_is_free == BUILTINS[name].horizon_is_free


@pytest.mark.usefixtures("folder")
def test_a_file_is_read() -> None:
    model = load_model("chain.json")
    assert (model.name, model.token_labels) == ("chain.json", ("0", "1", "2"))
    assert (model.table.horizon, model.table.eos, model.horizon_is_free) == (4, (2,), True)
    assert first_law(model.table) == pytest.approx([0.5, 0.3, 0.2])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "prompt", "max_new_tokens", "law", "horizon"),
    [
        ("chain.json", "", None, [0.5, 0.3, 0.2], 4),
        ("chain.json", "0", None, [0.1, 0.6, 0.3], 4),
        ("chain.json", "0 1 1 1 1 1", None, [0.0, 0.5, 0.5], 4),
        ("chain.json", "0", 9, [0.1, 0.6, 0.3], 9),
        ("chain.json", None, 1, [0.5, 0.3, 0.2], 1),
        ("tree.json", None, None, [0.25, 0.75], 3),
        ("tree.json", "1", None, [0.9, 0.1], 2),
        ("tree.json", "1 0", None, [0.4, 0.6], 1),
        ("tree.json", "1", 1, [0.9, 0.1], 1),
        ("tree.json", "1", 2, [0.9, 0.1], 2),
    ],
)
def test_a_prompt_moves_the_start_and_uses_up_the_horizon_of_a_tree(
    name: str, prompt: str | None, max_new_tokens: int | None, law: list[float], horizon: int
) -> None:
    model = load_model(name, prompt, max_new_tokens)
    assert first_law(model.table) == pytest.approx(law)
    assert model.table.horizon == horizon


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "prompt", "max_new_tokens", "says"),
    [
        ("builtin:toy-bb", None, None, "toy-b"),
        ("toy-b", None, None, "no such file, did you mean 'builtin:toy-b'?"),
        ("toyb", None, None, "did you mean 'builtin:toy-b'?"),
        ("missing/file", None, None, "no such file, give a JSON model file or builtin:NAME"),
        ("toy-e.json", None, None, "no such file, give a JSON model file or builtin:NAME"),
        ("./toy-e", None, None, "no such file, give a JSON model file or builtin:NAME"),
        ("n" * 300, None, None, "no such file"),
        ("checkpoint", None, None, "a folder holds a transformer"),
        ("tree.json", "0 x", None, "--prompt '0 x': 'x' is not a token"),
        ("tree.json", "-1", None, "'-1' is not a token"),
        ("tree.json", "9" * 5000, None, "is not a token"),
        ("tree.json", "2", None, "--prompt '2': prompt token 2 at position 0: must be in 0..1"),
        ("tree.json", "1 1 0", None, "leaves nothing of the 3 tokens of 'tree.json'"),
        ("tree.json", "1 1 1 1 1", None, "leaves nothing"),
        ("chain.json", "0 2", None, "ends the sequence"),
        ("chain.json", "1 0", None, "has probability 0"),
        ("tree.json", "1", 3, "--max-new-tokens 3: 'tree.json' ends after 2, give at most 2"),
        ("tree.json", None, 0, "must be at least 1"),
        ("chain.json", None, -1, "must be at least 1"),
    ],
)
def test_what_does_not_suit_is_one_line_with_the_mend(
    name: str, prompt: str | None, max_new_tokens: int | None, says: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_model(name, prompt, max_new_tokens)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_damaged_file_is_named(folder: Path) -> None:
    (folder / "bad.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"^bad\.json: "):
        load_model("bad.json")

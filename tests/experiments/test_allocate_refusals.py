"""`rolloutlab allocate` and bad input: exit status 2 and one line."""

from pathlib import Path
from typing import Any

import pytest

from experiments import allocation_state
from experiments.allocate import main
from tests.experiments.test_allocate import allocate, write

P1 = {"prompt_id": "x", "successes": 1, "failures": 1}
GOOD = {"prompts": [P1]}
BAD: dict[str, Any] = {
    "not JSON": "{",
    "a list": [],
    "no prompts": {"prompts": []},
    "prompts are no list": {"prompts": {}},
    "unknown key": GOOD | {"priors": {"a": 1, "b": 1}},
    "unknown key of a prompt": {"prompts": [P1 | {"sucesses": 1}]},
    "missing count": {"prompts": [{"prompt_id": "x", "successes": 1}]},
    "negative count": {"prompts": [P1 | {"failures": -1}]},
    "fraction": {"prompts": [P1 | {"failures": 1.5}]},
    "boolean": {"prompts": [P1 | {"failures": True}]},
    "text": {"prompts": [P1 | {"failures": "1"}]},
    "NaN": '{"prompts": [{"prompt_id": "x", "successes": NaN, "failures": 1}]}',
    "infinity": '{"prompts": [{"prompt_id": "x", "successes": Infinity, "failures": 1}]}',
    "huge": {"prompts": [P1 | {"failures": 10**30}]},
    "two of one id": {"prompts": [P1, P1]},
    "key twice": '{"prompts": [{"prompt_id": "x", "successes": 1, "successes": 1, "failures": 1}]}',
    "null id": {"prompts": [P1 | {"prompt_id": None}]},
    "history of numbers": {"prompts": [P1 | {"history": [3]}]},
    "history of three": {"prompts": [P1 | {"history": [[1, 2, 3]]}]},
    "negative history": {"prompts": [P1 | {"history": [[1, -2]]}]},
    "history is an object": {"prompts": [P1 | {"history": {}}]},
    "prior is a list": GOOD | {"prior": []},
    "prior of zero": GOOD | {"prior": {"a": 0, "b": 1}},
    "prior without spread": GOOD | {"prior": {"a": 1e200, "b": 1}},
    "prior all at the ends": GOOD
    | {"prior": {"mixture": [{"weight": 1, "a": 1e-200, "b": 1e-200}]}},
    "prior is NaN": '{"prompts": [{"prompt_id": "x", "successes": 1, "failures": 1}], "prior": {"a": NaN, "b": 1}}',
    "prior without b": GOOD | {"prior": {"a": 1}},
    "prior of both kinds": GOOD | {"prior": {"a": 1, "b": 1, "mixture": []}},
    "empty mixture": GOOD | {"prior": {"mixture": []}},
    "point outside": GOOD | {"prior": {"mixture": [{"weight": 1, "point": 1.2}]}},
    "weights miss 1": GOOD | {"prior": {"mixture": [{"weight": 0.5, "point": 0.5}]}},
    "negative weight": GOOD
    | {"prior": {"mixture": [{"weight": -1, "a": 1, "b": 1}, {"weight": 2, "point": 0.5}]}},
    "point and Beta": GOOD | {"prior": {"mixture": [{"weight": 1, "a": 1, "b": 1, "point": 0}]}},
    "excluded by the prior": GOOD | {"prior": {"mixture": [{"weight": 1, "point": 0}]}},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_states(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Exit status 2 and one line; nothing on stdout."""
    path = write(tmp_path, BAD[name])
    assert main([path, "--method", "hora", "--budget", "3", "--json", "-"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1
    assert said.err.startswith("rolloutlab allocate: ")


def test_weights_that_miss_1_by_little_are_shown_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [{"weight": 0.5, "point": 0.5}, {"weight": 0.500002, "a": 1, "b": 1}]
    path = write(tmp_path, GOOD | {"prior": {"mixture": parts}})
    assert main([path, "--method", "hora", "--budget", "3"]) == 2
    assert "the weights sum to 1.000002, must be 1" in capsys.readouterr().err


def test_histories_that_fill_the_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One long history makes all prompts that long."""
    monkeypatch.setattr(allocation_state, "_MOST_VISITS", 5)
    other = {"prompt_id": "y", "successes": 0, "failures": 0, "history": [[1, 1]] * 2}
    document = allocate(
        tmp_path, capsys, "--method", "vip", "--budget", "3", state={"prompts": [P1, other]}
    )
    assert document["spent"] == 3
    path = write(tmp_path, {"prompts": [P1, other | {"history": [[1, 1]] * 3}]})
    assert main([path, "--method", "vip", "--budget", "3"]) == 2
    assert "keep the latest updates" in capsys.readouterr().err


OPTIONS: list[list[str]] = [
    ["--method", "horra", "--budget", "3"],
    ["--method", "hora", "--budget", "-1"],
    ["--method", "hora", "--budget", "nan"],
    ["--method", "hora", "--budget", "1.5"],
    ["--method", "hora"],
    ["--budget", "3"],
    ["--method", "hora", "--budget", "99999999999999999"],
    ["--method", "hora", "--budget", "3", "--group-size", "0"],
    ["--method", "sara", "--budget", "3", "--group-size", "1"],
    ["--method", "sara", "--budget", "3", "--tau-low", "1.5"],
    ["--method", "sara", "--budget", "3", "--tau-low", "nan"],
    ["--method", "sara", "--budget", "3", "--tau-low", "0.5", "--tau-high", "0.4"],
    ["--method", "hora", "--budget", "3", "--tau-low", "0.4"],
    ["--method", "hora", "--budget", "3", "--cap", "0"],
    ["--method", "knapsack", "--budget", "3", "--max", "1"],
    ["--method", "pods", "--budget", "3", "--kept", "9"],
    ["--method", "pilot-commit", "--budget", "3", "--pilots", "0"],
    ["--method", "vip", "--budget", "3", "--cap", "1"],
    ["--method", "uniform", "--budget", "3", "--mass-aware"],
]


@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """The same."""
    path = write(tmp_path, GOOD)
    assert main([path, *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1


def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor a folder, nor a result over the state."""
    for path in (str(tmp_path / "none.json"), str(tmp_path)):
        assert main([path, "--method", "hora", "--budget", "3"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    state = write(tmp_path, GOOD)
    assert main([state, "--method", "hora", "--budget", "3", "--json", state]) == 2

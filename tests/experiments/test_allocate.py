"""`rolloutlab allocate`: one row of the contract after another, and one line for whatever is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.allocate import main
from experiments.allocation_methods import METHODS

POOL = [
    *[
        {"prompt_id": "a", "successes": 0, "failures": 4},
        {"prompt_id": "b", "successes": 1, "failures": 3},
    ],
    *[
        {"prompt_id": "c", "successes": 0, "failures": 0},
        {"prompt_id": "d", "successes": 4, "failures": 0},
    ],
    {"prompt_id": "e", "successes": 5, "failures": 3},
]


def write(folder: Path, document: Any) -> str:
    """A STATE file."""
    path = folder / "state.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def allocate(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str, state: Any = None
) -> dict[str, Any]:
    """The result of a call that must work."""
    path = write(folder, {"prompts": POOL} if state is None else state)
    assert main([path, "--json", "-", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["spent"] == sum(row["additional"] for row in document["prompts"])
    assert document["spent"] <= document["budget"]
    return document


def additional(document: dict[str, Any]) -> list[int]:
    """Column of the result."""
    return [row["additional"] for row in document["prompts"]]


def decisions(document: dict[str, Any]) -> list[str]:
    """Column of the result."""
    return [row["decision"] for row in document["prompts"]]


ROWS: list[tuple[list[str], list[int], list[str] | None]] = [
    (["--method", "uniform", "--budget", "17"], [4, 4, 3, 3, 3], None),
    (
        ["--method", "uniform", "--budget", "2"],
        [1, 1, 0, 0, 0],
        ["commit", "commit", "none", "none", "none"],
    ),
    (
        ["--method", "dynamic-sampling", "--budget", "100"],
        [4, 4, 8, 4, 0],
        ["continue", "continue", "continue", "continue", "commit"],
    ),
    (
        ["--method", "dynamic-sampling", "--budget", "10"],
        [4, 4, 2, 0, 0],
        ["continue", "continue", "continue", "none", "commit"],
    ),
    (
        ["--method", "dynamic-sampling", "--budget", "10", "--group-size", "4"],
        [0, 0, 4, 0, 0],
        ["abandon", "commit", "continue", "abandon", "commit"],
    ),
    (
        ["--method", "pilot-commit", "--budget", "100", "--pilots", "4", "--commits", "12"],
        [0, 12, 4, 0, 12],
        ["defer", "commit", "continue", "evict", "commit"],
    ),
    (
        [
            "--method",
            "pilot-commit",
            "--budget",
            "27",
            "--pilots",
            "4",
            "--commits",
            "12",
            "--evict",
            "1",
        ],
        [0, 0, 4, 0, 12],
        ["defer", "defer", "continue", "evict", "commit"],
    ),
    (
        [
            "--method",
            "pilot-commit",
            "--budget",
            "99",
            "--pilots",
            "4",
            "--commits",
            "9",
            "--lower",
            "0.3",
            "--upper",
            "0.4",
        ],
        [0, 0, 4, 0, 0],
        ["defer", "defer", "continue", "evict", "skip"],
    ),
    (
        ["--method", "sara", "--budget", "100"],
        [0, 4, 1, 0, 0],
        ["abandon", "commit", "continue", "abandon", "commit"],
    ),
    (
        ["--method", "sara", "--budget", "3"],
        [0, 3, 0, 0, 0],
        ["abandon", "commit", "continue", "abandon", "commit"],
    ),
    (
        ["--method", "pilot-commit", "--budget", "100"],
        [0, 6, 2, 0, 6],
        ["defer", "commit", "continue", "evict", "commit"],
    ),
    (["--method", "sara", "--budget", "9", "--tau-low", "0.3"], [1, 4, 1, 1, 0], None),
    (
        ["--method", "optimal-stopping", "--budget", "100"],
        [1, 4, 1, 1, 0],
        ["continue", "commit", "continue", "continue", "commit"],
    ),
    (["--method", "knapsack", "--budget", "30"], [0, 14, 8, 0, 8], None),
    (["--method", "knapsack", "--budget", "9", "--max", "3"], [0, 3, 3, 0, 3], None),
    (["--method", "dps", "--budget", "21"], [4, 4, 8, 4, 0], ["commit"] * 4 + ["none"]),
    (
        ["--method", "dps", "--budget", "9"],
        [4, 4, 0, 0, 0],
        ["commit", "commit", "defer", "defer", "none"],
    ),
    (["--method", "greso", "--budget", "100"], [4, 4, 8, 4, 0], None),
    (["--method", "vip", "--budget", "0"], [0, 0, 0, 0, 0], None),
    (["--method", "speed", "--budget", "100"], [0, 20, 4, 0, 16], None),
    (["--method", "reinforce-ada", "--budget", "100"], [4, 4, 8, 4, 0], None),
    (["--method", "pods", "--budget", "100"], [4, 4, 8, 4, 0], None),
    (["--method", "ar3po", "--budget", "100"], [4, 0, 4, 0, 0], None),
    (["--method", "cures", "--budget", "0"], [0, 0, 0, 0, 0], None),
]


@pytest.mark.parametrize(
    ("words", "expected", "decided"), ROWS, ids=lambda each: " ".join(map(str, each or []))
)
def test_rows_of_the_contract(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    expected: list[int],
    decided: list[str] | None,
) -> None:
    """Numbers worked out by hand from the one-step rules."""
    document = allocate(tmp_path, capsys, *words)
    assert additional(document) == expected
    assert decided is None or decisions(document) == decided
    assert [row["prompt_id"] for row in document["prompts"]] == ["a", "b", "c", "d", "e"]
    assert document["method"] == words[1] and document["budget"] == int(words[3])


def test_hora_of_the_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """25, 15, 10, 6, 4; the budget is spent whole, and with a cap what fits."""
    state = {
        "prompts": [{"prompt_id": str(c), "successes": c, "failures": 4 - c} for c in range(5)]
    }
    words = ("--method", "hora", "--budget", "60")
    assert additional(allocate(tmp_path, capsys, *words, state=state)) == [25, 15, 10, 6, 4]
    capped = allocate(tmp_path, capsys, *words, "--cap", "10", state=state)
    assert additional(capped) == [6, 6, 6, 6, 6]
    aware = allocate(tmp_path, capsys, *words, "--mass-aware", state=state)
    assert additional(aware) == [32, 15, 8, 4, 1]


def test_priors_of_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A point prior at 0 changes SARA's verdict; the same Beta in both forms gives the same."""
    pool = [{"prompt_id": 1, "successes": 0, "failures": 1}]
    words = ("--method", "sara", "--budget", "5")
    spiked = {"mixture": [{"weight": 0.7, "point": 0}, {"weight": 0.3, "a": 1, "b": 1}]}
    assert decisions(allocate(tmp_path, capsys, *words, state={"prompts": pool})) == ["continue"]
    assert decisions(
        allocate(tmp_path, capsys, *words, state={"prompts": pool, "prior": spiked})
    ) == ["abandon"]
    one = {"mixture": [{"weight": 1, "a": 0.5, "b": 2}]}
    found = [
        additional(
            allocate(
                tmp_path,
                capsys,
                "--method",
                "hora",
                "--budget",
                "11",
                state={"prompts": POOL, "prior": prior},
            )
        )
        for prior in ({"a": 0.5, "b": 2}, one)
    ]
    assert found[0] == found[1] and sum(found[0]) == 11
    flat = allocate(tmp_path, capsys, "--method", "hora", "--budget", "11")
    assert additional(flat) != found[0]


def test_history_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A solved and a hopeless history push a prompt back; nulls and missing histories are no error."""
    pool = [
        {"prompt_id": "solved", "successes": 0, "failures": 0, "history": [[8, 0], [8, 0], [8, 0]]},
        {"prompt_id": "mixed", "successes": 0, "failures": 0, "history": [None, [3, 5], None]},
        {"prompt_id": "new", "successes": 0, "failures": 0},
    ]
    for method in ("dps", "vip", "cures"):
        document = allocate(
            tmp_path, capsys, "--method", method, "--budget", "8", state={"prompts": pool}
        )
        more = dict(zip(("solved", "mixed", "new"), additional(document), strict=True))
        assert more["mixed"] >= more["solved"] and more["new"] >= more["solved"]
        assert more["solved"] < 4
    seeds = {
        tuple(
            additional(
                allocate(
                    tmp_path,
                    capsys,
                    "--method",
                    "mopps",
                    "--budget",
                    "8",
                    "--seed",
                    str(seed),
                    state={"prompts": pool},
                )
            )
        )
        for seed in range(6)
    }
    assert len(seeds) > 1 and all(sum(each) == 8 for each in seeds)


@pytest.mark.parametrize("name", METHODS)
def test_budgets_are_never_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Nothing is asked for with nothing to spend, and scores and decisions are there all the same."""
    for budget in (0, 1, 7):
        document = allocate(tmp_path, capsys, "--method", name, "--budget", str(budget))
        assert all(row["additional"] >= 0 for row in document["prompts"])
        assert all(isinstance(row["score"], float | int) for row in document["prompts"])


def test_ends_of_the_range_of_priors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The narrowest and the widest prior: a coin, and prompts that are all right or all wrong."""
    pool = [{"prompt_id": "x", "successes": 0, "failures": 1}]
    chances: list[float] = []
    for size in (1e100, 1e-100):
        state = {"prompts": pool, "prior": {"a": size, "b": size}}
        document = allocate(tmp_path, capsys, "--method", "sara", "--budget", "9", state=state)
        chances.append(document["prompts"][0]["score"])
    assert chances == [
        pytest.approx(1 - 0.5**7),
        pytest.approx(sum(1e-100 / k for k in range(1, 8))),
    ]


def test_zeros_have_no_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A full group without a success has chance 0, not -0."""
    pool = [{"prompt_id": "x", "successes": 0, "failures": 8}]
    document = allocate(
        tmp_path, capsys, "--method", "sara", "--budget", "9", state={"prompts": pool}
    )
    assert str(document["prompts"][0]["score"]) == "0.0"


def test_a_person_sees_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, or on stderr where stdout is taken; same arguments, same bytes."""
    path = write(tmp_path, {"prompts": POOL})
    assert main([path, "--method", "sara", "--budget", "9"]) == 0
    said = capsys.readouterr()
    assert "sara: 5 of 9 rollouts" in said.out and "continue" in said.out
    written: list[str] = []
    for _ in range(2):
        assert main([path, "--method", "sara", "--budget", "9", "--json", "-"]) == 0
        said = capsys.readouterr()
        written.append(said.out)
        assert "continue" in said.err
    assert written[0] == written[1]


def test_histories_end_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shorter history is one that began later: nulls before it change nothing, nulls after it do."""

    def score(history: list[Any]) -> float:
        other = {"prompt_id": "b", "successes": 0, "failures": 0, "history": [[1, 7]] * 3}
        mine = {"prompt_id": "a", "successes": 0, "failures": 0, "history": history}
        state = {"prompts": [mine, other]}
        found = allocate(tmp_path, capsys, "--method", "dps", "--budget", "8", state=state)
        return found["prompts"][0]["score"]

    assert score([[8, 0]]) == score([None, None, [8, 0]])
    assert abs(score([[8, 0]]) - score([[8, 0], None, None])) > 0.01

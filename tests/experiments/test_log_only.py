"""--only: the same numbers as without it, none but those, and nothing lost on the way."""

import itertools
import json
from pathlib import Path

import pytest

from experiments import analyze
from experiments.rollout_logs.analysis import Analysis
from experiments.rollout_logs.engine import analyze_logs
from experiments.rollout_logs.families import (
    FAMILIES,
    NAMES,
    chosen,
    hidden_columns,
    kind_of,
    unread_fields,
)
from experiments.rollout_logs.narrow_columns import NARROW_COLUMNS
from experiments.rollout_logs.options import AnalysisOptions, check_options
from experiments.rollout_logs.reading import open_logs
from theory.errors import InvalidInput

OPTIONS = AnalysisOptions(ks=(1, 2), power_alpha=1.2, verifier_rates=(0.9, 0.1), num_resamples=100)
Row = dict[str, object]


def rows_of(prompts: int = 12, samples: int = 4) -> list[Row]:
    """A log in which every family has what it needs."""
    return [
        {
            "prompt_id": f"p{prompt}",
            "sample_id": sample,
            "answer": f"a{(prompt * 7 + sample * 5) % 3}",
            "correct": (prompt * 7 + sample * 5) % 3 == 0,
            "reward": (prompt + sample) % 4 / 4,
            "score": ((prompt * 31 + sample * 17) % 29) / 29,
            "base_logp": -20.0 - (prompt * 3 + sample) % 5,
            "behavior_logp": -20.5 - (prompt + sample * 2) % 5 / 4,
            "target_logp": -20.2 - (prompt * 2 + sample) % 7 / 5,
            "completion_tokens": 10 + (prompt * sample) % 9,
            "finish_reason": "length" if (prompt + sample) % 5 == 0 else "stop",
            "text_sha256": f"{prompt}-{sample * sample % 3}",
            "step": sample,
            "wall_s": 0.5 + sample,
            "model_calls": 1 + sample,
        }
        for prompt, sample in itertools.product(range(prompts), range(samples))
    ]


def write(path: Path, rows: list[Row]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def analyzed(log: str, only: frozenset[str] | None, format: str = "auto") -> Analysis:
    return analyze_logs(open_logs([log], format, {}, None, False), OPTIONS._replace(only=only))


@pytest.fixture(name="log", scope="module")
def _log(tmp_path_factory: pytest.TempPathFactory) -> str:  # pyright: ignore[reportUnusedFunction]
    return write(tmp_path_factory.mktemp("only") / "log.jsonl", rows_of())


@pytest.fixture(name="whole", scope="module")
def _whole(log: str) -> Analysis:  # pyright: ignore[reportUnusedFunction]
    return analyzed(log, None)


def test_every_statistic_is_in_one_family(whole: Analysis) -> None:
    assert len(set(NAMES)) == len(NAMES)
    elsewhere = {"selected_proxy_score@K", *FAMILIES["beyond"]}  # one verifier; --beyond
    assert {kind_of(each.name) for each in whole.statistics} == {*NAMES} - elsewhere


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FAMILIES["beyond"]])
def test_one_statistic_alone_is_what_it_is_among_all(name: str, log: str, whole: Analysis) -> None:
    alone = analyzed(log, frozenset([name]))
    assert alone.statistics == tuple(
        each for each in whole.statistics if kind_of(each.name) == name
    )
    assert (alone.counts.rows, alone.counts.used) == (whole.counts.rows, whole.counts.used)
    assert alone.counts.truncated == whole.counts.truncated
    assert alone.options["only"] == name
    assert alone.counts.missing.items() <= whole.counts.missing.items()


def test_logs_without_the_fields_are_refused_alike(tmp_path: Path) -> None:
    bare = [{"prompt_id": row["prompt_id"], "reward": row["reward"]} for row in rows_of()]
    log = write(tmp_path / "bare.jsonl", bare)
    whole = analyzed(log, None)
    for family in FAMILIES:
        if family != "beyond":
            found = analyzed(log, chosen([family]))
            expected = [each for each in whole.statistics if kind_of(each.name) in FAMILIES[family]]
            assert list(found.statistics) == expected


def test_words_of_the_command_line() -> None:
    assert chosen(["pass", "Majority@k", "ESS"]) == {"pass@K", "majority@K", "ess"}
    assert chosen(["pass^K", "oracle"]) == {"pass^K", "oracle@N"}
    assert chosen(["coverage", "brier"]) == {*FAMILIES["coverage"], "brier"}
    with pytest.raises(InvalidInput, match="unknown statistic in --only 'majorty': did you mean"):
        chosen(["majorty"])


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("power_ess", "--power-alpha"),
        ("model_pass@K", "--beyond"),
        ("noise_corrected_pass@K", "--verifier-tpr"),
    ],
)
def test_what_another_option_is_needed_for(name: str, option: str) -> None:
    with pytest.raises(InvalidInput, match=f"--only {name}: needs {option}"):
        check_options(AnalysisOptions(only=frozenset([name])))
    check_options(AnalysisOptions(only=frozenset([name, "ess"])))


def test_only_what_is_needed_is_read() -> None:
    assert hidden_columns(None) == frozenset() and hidden_columns(NAMES) == frozenset()
    hidden = hidden_columns(["pass@K"])
    assert {"answer", "score", "base_logp", "completion_tokens", "wall_s", "step"} <= hidden
    assert not {"prompt", "correct", "reward", "trajectory", "truncated", "chain_id"} & hidden
    assert hidden <= {column.name for column in NARROW_COLUMNS}
    unread = unread_fields(hidden)
    assert "score" in unread and not unread & {"tokens", "policy_version", "correct"}


def test_copies_that_differ_in_a_field_not_asked_for_are_no_copies(tmp_path: Path) -> None:
    rows = rows_of(prompts=3)
    log = write(tmp_path / "copies.jsonl", [*rows, rows[0]])
    assert analyzed(log, frozenset(["pass@K"])).counts == analyzed(log, None).counts._replace(
        missing={}
    )
    log = write(tmp_path / "differ.jsonl", [*rows, rows[0] | {"score": 0.123}])
    with pytest.raises(InvalidInput, match="2 different rows"):
        analyzed(log, frozenset(["pass@K"]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("score", '"high"'),
        ("score", "true"),
        ("answer", "1.50"),
        ("answer", '["x"]'),
        ("completion_tokens", "-3"),
        ("completion_tokens", "3.5"),
        ("completion_tokens", "1234567890123456789012345"),
        ("base_logp", "NaN"),
        ("wall_s", '{"a": 1}'),
        ("step", "[1]"),
    ],
)
def test_spoiled_values_count_though_nobody_asked_for_them(
    field: str, value: str, tmp_path: Path
) -> None:
    lines = [json.dumps(row) for row in rows_of(prompts=3)]
    spoiled = json.loads(lines[5])
    spoiled[field] = "SPOILED"
    lines[5] = json.dumps(spoiled).replace('"SPOILED"', value)
    log = tmp_path / "spoiled.jsonl"
    log.write_text("\n".join(lines) + "\n")
    whole, alone = analyzed(str(log), None), analyzed(str(log), frozenset(["pass@K"]))
    assert alone.counts._replace(missing={}) == whole.counts._replace(missing={})
    assert alone.statistics == tuple(
        each for each in whole.statistics if each.name.startswith("pass@")
    )


def test_the_command(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, out = tmp_path / "page.html", tmp_path / "out.json"
    words = [log, "--only", "pass,ess", "--json", str(out), "--html", str(page)]
    assert analyze.main(words) == 0
    assert analyze.main([log, "--only", "tokens_mean"]) == 0
    document = json.loads(out.read_text())
    names = {kind_of(each["name"]) for each in document["statistics"]}
    assert names == {"pass@K", "ess"} and "majority" not in page.read_text()
    capsys.readouterr()
    assert analyze.main([log, "--only", "pas"]) == 2
    assert "did you mean 'pass" in capsys.readouterr().err

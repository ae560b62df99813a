"""Names of files, versions and settings mean themselves: no pattern, no field, no order."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from experiments.rollout_logs import plain_staging
from tests.experiments.rollout_log_tools import Rows, Run, analyze, by_name, code, value, write_log

ROWS: Rows = [
    {"prompt_id": task, "sample_id": s, "correct": True} for task in range(3) for s in range(2)
]
OTHERS: Rows = [{"prompt_id": task, "sample_id": 0, "correct": False} for task in range(9)]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("run[1].jsonl", "run1.jsonl"),
        ("a*.jsonl", "ab.jsonl"),
        ("a?.jsonl", "ab.jsonl"),
        ("a[!b].jsonl", "ac.jsonl"),
        ("{a,b}.jsonl", "a.jsonl"),
        ("a'b.jsonl", "ab.jsonl"),
        ("a\\b.jsonl", "ab.jsonl"),
        ("~a.jsonl", "a.jsonl"),
        ("step=5/a.jsonl", "b.jsonl"),
        ("correct=0/a.jsonl", "b.jsonl"),
        ("prompt_id=7/sample_id=1/a.jsonl", "b.jsonl"),
    ],
)
def test_a_file_is_read_and_no_other(
    name: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    write_log(Path(name), ROWS)
    write_log(Path(other), OTHERS)
    for path in (Path(name), tmp_path / name):
        found = analyze(path, ks=(1,))
        assert (found["counts"]["rows"], found["counts"]["prompts"]) == (6, 3)
        assert value(found, "pass@1") == 1.0
        assert "step" not in found["field_map"]


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_folder_for_what_spills_is_no_field(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "correct=0"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    path = tmp_path / f"log{suffix}"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    assert value(analyze(path, ks=(1,)), "pass@1") == 1.0


def _versions(*versions: Any) -> Rows:
    return [
        {"prompt_id": place % 5, "sample_id": place, "correct": True, "policy_version": version}
        for place, version in enumerate(versions)
    ]


@pytest.mark.parametrize(
    ("versions", "span", "lag"),
    [
        (range(400), "0 ... 399", 399),
        ([9, "10", -3], "-3 ... 10", 13),
        ([2**62, -(2**62)], f"{-(2**62)} ... {2**62}", None),
        ([10**17 + 1, 10**17], f"{10**17} ... {10**17 + 1}", 1),
        (["7"], "7", 0),
        (["--3", "4"], "--3 ... 4", None),
        (["\u00b2", "3"], "3 ... \u00b2", None),
        (["final", "b", "a"], "a ... final", None),
        (["", None, None], "", None),
    ],
)
def test_all_versions_are_in_the_span(run: Run, versions: Any, span: str, lag: int | None) -> None:
    found = run(_versions(*versions), ks=(1,))
    policy = by_name(found)["pass@1"]["policy"]
    assert policy == {"collected": [f"version {span}"], "evaluated": f"version {span}", "lag": lag}
    assert [each["count"] for each in found["warnings"] if each["code"] == "lag"] == ([lag] if lag else [])  # fmt: skip


SETTINGS = [{"t": 1.0, "x": {"a": [1, 2], "b": "é"}}, {"x": {"b": "é", "a": [1, 2]}, "t": 1.0}]


@pytest.mark.parametrize("most", [10_000, 1])
def test_settings_are_equal_whatever_the_order_of_their_fields(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_staging, "_MOST_SETTINGS", most)
    rows = [{**row, "sampler": SETTINGS[place % 2]} for place, row in enumerate(ROWS)]
    lines, array = write_log(tmp_path / "a.jsonl", rows), tmp_path / "a.json"
    array.write_text(json.dumps(rows))
    first, second = (analyze(path, ks=(1,)) for path in (lines, array))
    assert first["statistics"] == second["statistics"] and value(first, "pass@1") == 1.0
    other = [{**row, "sampler": {"t": place % 2}} for place, row in enumerate(ROWS)]
    assert code(analyze(write_log(lines, other), ks=(1,)), "pass@1") == "R4"


def _long(tokens: int | None, logp: float) -> Rows:
    row = {"behavior_logp": logp, "target_logp": logp, "base_logp": logp}
    return [{**each, **row, "completion_tokens": tokens, "reward": 1.0} for each in ROWS]


def test_sums_over_long_sequences_are_no_stand_ins(run: Run) -> None:
    found = run(_long(30_000, -12_000.0), ks=(1,), power_alpha=1.0)
    for name in ("ess", "is_mean", "power_ess", "off_policy_pass@1"):
        assert value(found, name) in (1.0, 2.0), name
    assert code(found, "power_alpha_limit") is None and not any(w["code"] == "R8" for w in found["warnings"])  # fmt: skip
    for rows in (_long(5_000, -12_000.0), _long(None, -12_000.0)):
        assert code(run(rows, ks=(1,), power_alpha=1.0), "ess") == "R8"


def test_a_weight_beyond_the_range_counts_by_what_its_row_is_worth(run: Run) -> None:
    pairs = [(0, 800.0, 0.0), (0, 0.0, 1.0), (1, 0.0, 1.0), (1, 0.0, 1.0)]
    rows = [
        {"prompt_id": task, "sample_id": place, "reward": reward, "target_logp": -1.0, "behavior_logp": -1.0 - weight}
        for place, (task, weight, reward) in enumerate(pairs)
    ]  # fmt: skip
    found = run(rows, ks=(1,))
    assert (value(found, "is_mean"), value(found, "snis_mean"), value(found, "tis_mean")) == (0.75, 0.5, 0.75)  # fmt: skip
    assert by_name(found)["is_mean"]["tasks"] == 2

"""`rolloutlab score`: log probabilities of recorded rows, everything else kept, and what it refuses."""

import gzip
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from experiments import sample, score
from tests.experiments.sampled import CASE, CASE_PATH, draw

CASE_WORD = str(CASE_PATH)


def scored(tmp_path: Path, *lines: str, model: str = CASE_WORD) -> list[dict[str, Any]]:
    log, out = tmp_path / "log.jsonl", tmp_path / "scored.jsonl"
    log.write_text("".join(line + "\n" for line in lines))
    assert score.main([model, str(log), "--out", str(out)]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_scores_are_those_that_sampling_recorded(tmp_path: Path) -> None:
    for words in (
        ("--method", "suffix-mh", "--steps", "2"),
        ("--method", "smc", "--particles", "2"),
    ):
        rows = draw(*words, "--num", "20")
        for row, again in zip(rows, scored(tmp_path, *map(json.dumps, rows)), strict=True):
            assert again["base_logp"] == pytest.approx(row["base_logp"], abs=1e-5)
            assert sum(again["base_logp_tokens"]) == pytest.approx(again["base_logp"], abs=1e-9)
            kept = {k: v for k, v in again.items() if k not in ("base_logp", "base_logp_tokens")}
            assert kept == {k: v for k, v in row.items() if k != "base_logp"}


def test_scores_are_the_exact_ones(tmp_path: Path) -> None:
    lines = [json.dumps({"tokens": list(map(int, name.split()))}) for name in CASE["base"]]
    for row, p in zip(scored(tmp_path, *lines), CASE["base"].values(), strict=True):
        assert row["base_logp"] == pytest.approx(math.log(p), abs=1e-5)
        assert len(row["base_logp_tokens"]) == len(row["tokens"])


def test_a_prompt_is_read_and_does_not_count(tmp_path: Path) -> None:
    whole, rest, other = scored(
        tmp_path,
        '{"tokens": [1, 1, 0]}',
        '{"prompt": [1], "tokens": [1, 0]}',
        '{"prompt": [0], "tokens": [1, 0]}',
    )
    assert rest["base_logp_tokens"] == whole["base_logp_tokens"][1:]
    assert other["base_logp_tokens"] != rest["base_logp_tokens"]


def test_fields_keep_their_place_and_value(tmp_path: Path) -> None:
    line = (
        '{"x": {"y": [1, null]}, "base_logp": -9.5, "tokens": [2], "é": "ü", "n": 12345678901234567890, '
        '"base_logp_tokens": [-9.5], "z": null}'
    )
    [row] = scored(tmp_path, line)
    assert list(row) == [
        *("x", "base_logp", "base_logp_recorded", "tokens", "é", "n"),
        *("base_logp_tokens", "base_logp_tokens_recorded", "z"),
    ]
    before = json.loads(line)
    assert all(row[key] == before[key] for key in ("x", "tokens", "é", "n", "z"))
    assert (row["base_logp_recorded"], row["base_logp_tokens_recorded"]) == (-9.5, [-9.5])
    assert row["base_logp"] == pytest.approx(math.log(0.2), abs=1e-6)


def test_what_float32_cannot_tell_apart_does_not_differ(tmp_path: Path) -> None:
    exact = math.log(0.2)
    near, far = scored(
        tmp_path,
        json.dumps({"tokens": [2], "base_logp": exact + 1e-6, "base_logp_tokens": [exact - 1e-6]}),
        json.dumps({"tokens": [2], "base_logp": exact + 1e-4, "base_logp_tokens": [exact, 0.0]}),
    )
    assert not any(name.endswith("_recorded") for name in near)
    assert far["base_logp_recorded"] == pytest.approx(exact + 1e-4)
    assert far["base_logp_tokens_recorded"] == [pytest.approx(exact), 0.0]


def test_the_tolerance_grows_with_the_number() -> None:
    """A sum over a long row in float32 is right to so many digits, not to so many nats."""
    log_p = [-500.0, -500.0]
    for recorded, differs in ((-1000.005, False), (-1000.02, True)):
        row = score.rescored({"tokens": [0, 0], "base_logp": recorded}, log_p)
        assert ("base_logp_recorded" in row) == differs
        assert row["base_logp"] == -1000.0


def test_scoring_again_changes_nothing(tmp_path: Path) -> None:
    once = scored(tmp_path, '{"tokens": [2], "base_logp": -3.0}', '{"tokens": [0, 2]}')
    assert scored(tmp_path, *map(json.dumps, once)) == once
    # A wrong number that comes later stays beside the recorded one.
    again = scored(tmp_path, json.dumps(once[0] | {"base_logp": -4.0}))
    assert again[0]["base_logp_recorded"] == -3.0
    assert again[0]["base_logp_recorded_recorded"] == -4.0


def test_impossible_rows_are_null_with_a_reason(tmp_path: Path) -> None:
    """A real zero; after it there is no law."""
    path = tmp_path / "zero.json"
    chain = {"kind": "markov", "vocab_size": 2, "max_length": 3, "eos": None}
    path.write_text(json.dumps(chain | {"initial": [1, 0], "transition": [[0.5, 0.5], [1, 0]]}))
    row, good = scored(tmp_path, '{"tokens": [0, 1, 1]}', '{"tokens": [0, 1, 0]}', model=str(path))
    assert (row["base_logp"], row["base_logp_reason"]) == (None, "-infinity")
    assert row["base_logp_tokens"] == [0.0, pytest.approx(math.log(0.5)), None]
    assert row["base_logp_tokens_reason"] == "-infinity"
    assert good["base_logp"] == pytest.approx(math.log(0.5))
    first = scored(tmp_path, '{"tokens": [1, 0, 0]}', json.dumps(row), model=str(path))
    assert first[0]["base_logp_tokens_reason"] == "-infinity, NaN, NaN"
    assert first[1] == row  # nothing differs


def test_packed_logs_and_stdout(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    log = tmp_path / "log.jsonl.gz"
    log.write_bytes(gzip.compress(b'{"tokens": [2]}\n\n{"tokens": []}\n'))
    assert score.main([CASE_WORD, str(log)]) == 0
    out, err = capsysbinary.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["base_logp"] for row in rows] == [pytest.approx(math.log(0.2), abs=1e-6), 0.0]
    assert err == b""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"tokens": [0, 7]}', "field 'tokens': token 7 at position 1, must be in 0..2"),
        ('{"tokens": [0, 2, 1]}', "eos 2 at position 1 of 3, nothing can follow"),
        ('{"tokens": [0, 0, 1, 1]}', "4 tokens, longer than the horizon 3"),
        ('{"answer": "4"}', "field 'tokens': missing"),
        ('{"tokens": null}', "field 'tokens': missing"),
        ('{"tokens": [0.5]}', "field 'tokens': must be a list of token ids"),
        ('{"tokens": [true]}', "field 'tokens': must be a list of token ids"),
        ('{"tokens": [-1]}', "field 'tokens': must be a list of token ids"),
        ('{"tokens": "0 1"}', "field 'tokens': must be a list of token ids"),
        ('{"tokens": [2], "prompt": [2]}', "field 'prompt' '2': prompt token 2"),
        ('{"tokens": [2], "prompt": [9]}', "field 'prompt'"),
        ('{"tokens": [2], "prompt": "0"}', "field 'prompt': must be a list of token ids"),
        ('{"tokens": [2]', "not a line of JSON"),
        ("[2]", "not a JSON object"),
        ('{"tokens": [2], "tokens": [0, 2]}', "field 'tokens': there twice"),
        ('{"tokens": [2], "x": ' + "[" * 600 + "]" * 600 + "}", "nested too deeply"),
        ("[" * 100_000, "not a line of JSON"),
    ],
)
def test_rows_that_cannot_be_scored_are_named(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text('{"tokens": [2]}\n' + line + "\n")
    assert score.main([CASE_WORD, str(log), "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert (says in err, f"{log}, row 2" in err, err.count("\n")) == (True, True, 1)
    assert not out.exists()


def test_recorded_values_of_any_kind_stay(tmp_path: Path) -> None:
    odd = (
        f'{{"tokens": [2], "base_logp": 1{"0" * 400}}}',
        '{"tokens": [2], "base_logp": null, "base_logp_reason": "timeout"}',
        '{"tokens": [2], "base_logp_tokens": [null, null, null], "base_logp_tokens_reason": "NaN, NaN"}',
    )
    large, late, short = scored(tmp_path, *odd)
    assert large["base_logp_recorded"] == 10**400
    assert late["base_logp_reason_recorded"] == "timeout"
    assert len(short["base_logp_tokens_recorded"]) == 3
    assert all(row["base_logp"] == large["base_logp"] for row in (late, short))


def test_a_pipe_can_be_scored_and_a_damaged_archive_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b'{"tokens": [2]}\n')
    os.close(write_end)
    assert score.main([CASE_WORD, f"/dev/fd/{read_end}"]) == 0
    os.close(read_end)
    assert '"base_logp"' in capsys.readouterr().out
    log = tmp_path / "log.jsonl.gz"
    packed = bytearray(gzip.compress(b'{"tokens": [2]}\n' * 1000))
    packed[len(packed) // 2] ^= 0xFF
    log.write_bytes(packed)
    assert score.main([CASE_WORD, str(log), "--out", "/dev/null"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_model_is_not_written_over(tmp_path: Path) -> None:
    model, log = tmp_path / "model.json", tmp_path / "log.jsonl"
    chain = {"kind": "markov", "vocab_size": 2, "max_length": 1, "eos": None}
    model.write_text(json.dumps(chain | {"initial": [0.5, 0.5], "transition": [[0.5, 0.5]] * 2}))
    log.write_text('{"tokens": [1]}\n')
    before = model.read_bytes()
    assert score.main([str(model), str(log), "--out", str(model)]) == 2
    assert sample.main([str(model), "--method", "ancestral", "--out", str(model)]) == 2
    assert model.read_bytes() == before


def test_a_longer_horizon_can_be_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"tokens": [0] * 9}) + "\n")
    assert score.main(["builtin:toy-e", str(log), "--out", "/dev/null"]) == 2
    words = ["builtin:toy-e", str(log), "--max-new-tokens", "9", "--out", "/dev/null"]
    assert score.main(words) == 0
    assert score.main(["builtin:toy-e", str(tmp_path / "none.jsonl")]) == 2


def test_an_empty_name_is_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert score.main(["builtin:toy-e", ""]) == 2
    assert capsys.readouterr().err.endswith("FILE '': is empty, give a log\n")

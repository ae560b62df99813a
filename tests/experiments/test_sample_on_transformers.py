"""`rolloutlab sample`, `score` and `exact` on transformers: rows of several prompts, the verifier's word, and scores by one forward pass."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import exact, sample, score
from experiments.samplers.batches import draw_batches
from experiments.samplers.catalogue import METHODS, make_settings
from experiments.samplers.rows import Rows
from models.pretrained.load import load_folder
from models.pretrained.own_format import save_folder
from models.shipped import folder
from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from models.tasks.registry import task
from models.tasks.text import parse_prompts
from models.transformer import full_log_probs
from tests.experiments.sampled import draw
from tests.models.transformer.tables import small
from theory.ledger import totals

SHIPPED = "builtin:countdown-3"
COUNTDOWN = task("countdown-3")
ANCESTRAL = ("--method", "ancestral", "--num-prompts", "3", "--num", "4", "--seed", "2")
WIDTHS = ((0, 1, 1), (), (0, 1), (1,))
OPTIONS: dict[str, dict[str, Any]] = {
    "ancestral": {},
    "suffix-mh": {"steps": 2},
    "smc": {"particles": 2},
}
TABLE = ContextModel.from_table(toy_e())


def drawn(method: str, model: Any, num: int, size: int) -> Rows:
    """Of each prompt."""
    given, key = OPTIONS[method], jax.random.key(3)
    settings, sampler = make_settings(method, given), METHODS[method].sampler
    batches = [*draw_batches(key, model, WIDTHS, num, size, sampler, settings)]
    joined = {
        name: np.concatenate([getattr(rows, name) for rows in batches])
        for name in ("tokens", "lengths", "base_logp")
    }
    return batches[0]._replace(**joined)


@pytest.mark.parametrize(
    ("method", "model", "sizes"),
    [
        ("ancestral", TABLE, (5, 1)),
        ("ancestral", small(), (5,)),
        *(
            pytest.param(method, model, (5, 1), marks=pytest.mark.slow)
            for method in ("suffix-mh", "smc")
            for model in (TABLE, small())
        ),
    ],
)
def test_an_id_draws_what_it_draws_in_any_batch(
    method: str, model: Any, sizes: tuple[int, ...]
) -> None:
    """Prompts of four lengths, three draws of each: batches with parts of one, two and three prompts."""
    whole = drawn(method, model, 3, 12)
    assert len(whole.lengths) == 12 * OPTIONS[method].get("particles", 1)
    assert len({tuple(row) for row in whole.tokens.tolist()}) > 3
    for size in sizes:
        cut = drawn(method, model, 3, size)
        np.testing.assert_array_equal(cut.tokens, whole.tokens)
        np.testing.assert_array_equal(cut.lengths, whole.lengths)
        np.testing.assert_allclose(cut.base_logp, whole.base_logp, atol=1e-5)


def test_a_batch_reads_no_more_prompts_than_it_can_have() -> None:
    """Three draws of each of four prompts. Batches of three may have parts of two, so the first reads its one twice; of five, of three."""
    for size, tokens in ((12, 3 + 0 + 2 + 1), (3, 3 + 3), (5, 3 + 0 + 0)):
        assert totals(drawn("ancestral", TABLE, 3, size).ledger)["prefill_tokens"] == tokens


def forward(rows: list[dict[str, Any]], model: Any, start: int) -> list[list[float]]:
    """Log p of every token, from the laws of one pass over prompt and tokens."""
    whole = [(row["prompt"] or [start]) + row["tokens"] for row in rows]
    tokens = np.zeros((len(rows), max(map(len, whole))), np.int32)
    for place, row in enumerate(whole):
        tokens[place, : len(row)] = row
    lengths = np.array([len(row) for row in whole])
    laws = np.asarray(jax.jit(full_log_probs)(model, jnp.asarray(tokens), jnp.asarray(lengths)))
    return [
        [
            float(laws[b, at - 1, row[at]])
            for at in range(len(row) - len(rows[b]["tokens"]), len(row))
        ]
        for b, row in enumerate(whole)
    ]


def test_rows_say_what_they_should() -> None:
    rows = [*draw(*ANCESTRAL, model=SHIPPED)]
    assert [(row["prompt_id"], row["sample_id"]) for row in rows] == [
        (p, s) for p in range(3) for s in range(4)
    ]
    prompts = COUNTDOWN.prompts("test", 3, 0)
    expected = forward(rows, load_folder(folder("countdown-3")).model, 0)
    for row, log_p in zip(rows, expected, strict=True):
        shown = np.asarray(prompts.tokens)[row["prompt_id"]].tolist()
        assert row["prompt"] == shown
        assert row["policy_id"] == SHIPPED and row["law"] == "exact"
        assert row["base_logp"] == pytest.approx(sum(log_p), abs=1e-4)
        assert row["behavior_logp"] == row["base_logp"]
        ends = row["tokens"][-1] == COUNTDOWN.eos
        assert row["finish_reason"] == ("eos" if ends else "length")
        assert ends or len(row["tokens"]) == COUNTDOWN.horizon
        assert (row["dataset"], row["verifier_id_final"]) == (
            "countdown-3:test",
            "task:countdown-3",
        )


def test_verdicts_are_those_of_arithmetic() -> None:
    """Read from the labels, without the verifier."""
    rows = draw(*ANCESTRAL, model=SHIPPED)
    for row in rows:
        words = [COUNTDOWN.labels[token] for token in row["tokens"]]
        prompt = [COUNTDOWN.labels[token] for token in row["prompt"]]
        numbers, operators = words[:5:2], words[1:4:2]
        formed = len(words) == 6 and all(word in "123456789" for word in numbers)
        formed = formed and all(word in "+-*" for word in operators)
        if not formed or row["finish_reason"] != "eos":
            assert (row["answer"], row["correct"]) == (None, False)
            continue
        value = int(numbers[0])
        for operator, number in zip(operators, numbers[1:], strict=True):
            value = {"+": value + int(number), "-": value - int(number), "*": value * int(number)}[
                operator
            ]
        assert row["answer"] == str(value)
        right = value == int("".join(prompt[3:5])) and sorted(numbers) == sorted(prompt[:3])
        assert row["correct"] == right
    assert {row["correct"] for row in rows} == {True, False}


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b")]
    for file in files:
        assert sample.main([SHIPPED, *ANCESTRAL, "--out", str(file)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert draw(*ANCESTRAL, model=SHIPPED) == tuple(
        map(json.loads, files[0].read_text().splitlines())
    )


def test_populations_of_several_prompts_are_numbered_through(tmp_path: Path) -> None:
    """Two named prompts, two populations of two particles each."""
    path, out = tmp_path / "prompts.jsonl", tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "2 7 5 1 9 =", "prompt_id": "x"}\n{"prompt": "5 3 5 2 0 ="}\n')
    words = ["--method", "smc", "--particles", "2", "--num", "2", "--prompts", str(path)]
    assert sample.main([SHIPPED, *words, "--out", str(out)]) == 0
    rows = list(map(json.loads, out.read_text().splitlines()))
    assert [(row["prompt_id"], row["sample_id"], row["population_id"]) for row in rows] == [
        (name, s, 2 * p + s // 2) for p, name in enumerate(("x", 1)) for s in range(4)
    ]
    ids = np.asarray(parse_prompts(COUNTDOWN, ["2 7 5 1 9 =", "5 3 5 2 0 ="]).tokens).tolist()
    assert [row["prompt"] for row in rows] == [ids[0]] * 4 + [ids[1]] * 4
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        mean = np.mean([np.exp(row["log_weight"]) for row in (first, second)])
        assert first["log_Z_hat"] == second["log_Z_hat"] == pytest.approx(np.log(mean), abs=1e-5)
    assert all(isinstance(row["correct"], bool) for row in rows)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "power-exact"], "--method power-exact: needs all sequences"),
        (["--method", "twisted-smc"], "--twist exact: needs all sequences"),
        (
            ["--method", "tilted-mh", "--reward", "x.json"],
            "--method tilted-mh: needs all sequences",
        ),
    ],
)
def test_methods_that_need_a_table_say_so(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main([SHIPPED, *words, "--out", "/dev/null"]) == 2
    err = capsys.readouterr().err
    assert says in err and "is a transformer; give" in err and err.count("\n") == 1


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny"
    save_folder(path, small(), {})
    return str(path)


def scored(
    folder: Path, model: str, *records: dict[str, Any], words: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    log, out = folder / "log.jsonl", folder / "scored.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert score.main([model, str(log), "--out", str(out), *words]) == 0
    return list(map(json.loads, out.read_text().splitlines()))


def test_sampled_rows_are_scored_as_they_were_drawn(tmp_path: Path) -> None:
    rows = draw(*ANCESTRAL, model=SHIPPED)
    for before, after in zip(rows, scored(tmp_path, SHIPPED, *rows), strict=True):
        assert after["base_logp"] == pytest.approx(before["base_logp"], abs=1e-4)
        assert sum(after["base_logp_tokens"]) == pytest.approx(after["base_logp"], abs=1e-6)
        assert len(after["base_logp_tokens"]) == len(before["tokens"])


def test_scores_are_those_of_a_forward_pass(tiny: str, tmp_path: Path) -> None:
    """With and without a prompt, of all lengths, past the horizon of sampling; eos counts."""
    records: list[dict[str, Any]] = [
        {"prompt": [3, 1, 1], "tokens": [0, 2]},
        {"prompt": [], "tokens": [1, 1, 3, 2]},
        {"prompt": [2, 0], "tokens": [0, 1, 0, 1, 3, 1, 3]},
        {"prompt": [1], "tokens": []},
        {"prompt": [0], "tokens": [2]},
    ]
    got = scored(tmp_path, tiny, *records)
    for row, log_p in zip(got, forward(records, small(), small().config.start_token), strict=True):
        assert row["base_logp_tokens"] == pytest.approx(log_p, abs=1e-5)
        assert row["base_logp"] == pytest.approx(sum(log_p), abs=1e-5)
    # No prompt is the empty one.
    (alone,) = scored(tmp_path, tiny, {"tokens": [1, 1, 3, 2]})
    assert alone["base_logp"] == pytest.approx(got[1]["base_logp"], abs=1e-5)


@pytest.mark.parametrize(
    ("record", "words", "says"),
    [
        ({"tokens": [0, 7]}, (), "field 'tokens': token 7 at position 1, must be in 0..3"),
        ({"tokens": [0, 2, 1]}, (), "eos 2 at position 1 of 3, nothing can follow"),
        (
            {"prompt": [0, 9], "tokens": [1]},
            (),
            "field 'prompt': token 9 at position 1, must be in 0..3",
        ),
        ({"prompt": [0] * 10, "tokens": [1] * 7}, (), "17 tokens with those generated"),
        ({"prompt": [], "tokens": [1] * 16}, (), "17 tokens with those generated"),
        ({"tokens": [1, 1, 1]}, ("--max-new-tokens", "2"), "3 tokens, longer than the horizon 2"),
        ({"tokens": [1]}, ("--max-new-tokens", "0"), "--max-new-tokens 0: must be in 1.."),
    ],
)
def test_what_cannot_be_scored_is_named(
    record: dict[str, Any],
    words: tuple[str, ...],
    says: str,
    tiny: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text(json.dumps({"tokens": [1]}) + "\n" + json.dumps(record) + "\n")
    assert score.main([tiny, str(log), "--out", str(out), *words]) == 2
    err = capsys.readouterr().err
    assert (says in err, err.count("\n"), out.exists()) == (True, 1, False), err
    assert words or f"{log}, row 2" in err


def test_exact_laws_of_a_transformer_come_from_samples_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exact.main([SHIPPED]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "--from-samples" in err
    words = ["--from-samples", "8", "--num-prompts", "3", "--alpha", "1.1", "--json", "-"]
    assert exact.main([SHIPPED, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    about = found["from_samples"]
    assert (about["num_samples"], about["num_prompts"]) == (8, 3)
    assert (about["interval"]["unit"], about["interval"]["num_units"]) == ("prompts", 3)
    assert found["model"]["horizon"] == COUNTDOWN.horizon
    block = found["results"][0]["kl_power_temperature"]
    assert block["low"] <= block["estimate"] <= block["high"]

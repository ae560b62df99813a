"""`rolloutlab sample`: the fields of its rows, bytes that do not depend on how they were made, and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import sample
from experiments.rollout_logs.writer import read_rows
from experiments.samplers import populations
from experiments.samplers.catalogue import METHODS, make_settings, rows_side_by_side
from tests.experiments.sampled import CASE, CASE_PATH, POWER, draw
from theory import resampling

CASE_WORD = str(CASE_PATH)


@pytest.fixture(scope="module")
def reward(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("reward") / "reward.json"
    path.write_text(json.dumps(CASE["reward"]))
    return str(path)


def few(method: str, reward: str, num: int = 7) -> tuple[str, ...]:
    """A short run of a method."""
    words = ["--method", method, "--num", str(num), "--seed", "5"]
    takes = METHODS[method].options
    words += ["--steps", "2"] if "steps" in takes else []
    words += ["--particles", "3"] if "particles" in takes else []
    words += ["--reward", reward] if "reward" in takes else []
    return tuple(words)


@pytest.mark.parametrize("method", METHODS)
def test_fields_follow_the_contract(method: str, reward: str) -> None:
    """And a row's numbers do not depend on the batch it stood in, on either side of the split."""
    rows = draw(*few(method, reward))
    kind, alpha = METHODS[method], 1.0 if method in ("ancestral", "tilted-mh", "temperature") else 2
    per_id = 3 if kind.unit == "population" else 1
    assert [row["sample_id"] for row in rows] == list(range(7 * per_id))
    for place, row in enumerate(rows):
        tokens = row["tokens"]
        name = " ".join(map(str, tokens))
        assert (row["prompt_id"], row["prompt"], row["seed"]) == (0, [], 5)
        assert row["base_logp"] == pytest.approx(math.log(CASE["base"][name]), abs=1e-5)
        assert row["finish_reason"] == ("eos" if tokens[-1] == 2 else "length")
        assert row["log_z_sum"] == pytest.approx(log_z_sum(tokens, alpha), abs=1e-5)
        assert row["sampler"]["method"] == method
        assert {"draw": "", "chain": "chain_id", "population": "population_id"}[kind.unit] == (
            "".join({"chain_id", "population_id"} & row.keys())
        )
        if kind.unit != "draw":
            assert row[f"{kind.unit}_id"] == place // per_id
        if kind.unit == "population":
            check_population(rows[place - place % 3 : place - place % 3 + 3])
        elif kind.unit == "chain":
            assert (row["law"], row["log_weight"]) == ("approximate", None)
        elif method == "importance":
            weight = 2 * row["base_logp"] - row["behavior_logp"]
            assert (row["law"], row["log_weight"]) == ("weighted", pytest.approx(weight, abs=1e-5))
        else:
            assert (row["law"], row["log_weight"]) == ("exact", 0.0)
        if kind.unit != "draw" or method == "rejection":
            assert row["behavior_logp"] is None and row["proposal_logp"] < 0
        else:
            assert "proposal_logp" not in row
        if method == "power-exact":
            density = 2 * row["base_logp"] - POWER[2]["log_Z"]
            assert row["behavior_logp"] == pytest.approx(density, abs=1e-5)
        if method == "ancestral":
            assert row["behavior_logp"] == row["base_logp"] and row["log_z_sum"] == 0


def log_z_sum(tokens: list[int], alpha: float) -> float:
    """Of a row of the reference case."""
    prefixes = [" ".join(map(str, tokens[:end])) for end in range(len(tokens))]
    laws = [np.log(rational(CASE["conditionals"][prefix])) for prefix in prefixes]
    return float(sum(np.logaddexp.reduce(alpha * law) for law in laws))


def check_population(rows: tuple[dict[str, Any], ...]) -> None:
    """Three rows of one population share its estimate, the mean of their weights."""
    assert {row["law"] for row in rows} == {"weighted"}
    mean = np.mean([math.exp(row["log_weight"]) for row in rows])
    for row in rows:
        assert row["log_Z_hat"] == pytest.approx(math.log(mean), abs=1e-5)


def rational(row: list[str]) -> np.ndarray:
    """Probabilities above 0 of a row of fractions."""
    parts = [str(entry).split("/") for entry in row]
    values = np.array([float(part[0]) / float(part[1] if part[1:] else 1) for part in parts])
    return values[values > 0]


@pytest.mark.parametrize(
    "words",
    [
        ("--method", "temperature", "--temperature", "0.5"),
        ("--method", "suffix-mh", "--proposal-alpha", "1", "--steps", "2"),
        ("--method", "blockwise-mh", "--proposal-alpha", "1", "--steps", "2", "--block", "2"),
        ("--method", "twisted-smc", "--proposal-alpha", "1", "--particles", "2"),
    ],
)
def test_log_z_is_that_of_the_target_whatever_drew_the_row(words: tuple[str, ...]) -> None:
    """And log q is that of what drew it: a twist does not make the proposal where another is asked for."""
    for row in draw(*words, "--num", "6", "--seed", "5"):
        log_z = log_z_sum(row["tokens"], 2.0)
        assert row["log_z_sum"] == pytest.approx(log_z, abs=1e-5)
        if row["behavior_logp"] is None:
            assert row["proposal_logp"] == pytest.approx(row["base_logp"], abs=1e-5)
        else:
            assert row["behavior_logp"] == pytest.approx(2 * row["base_logp"] - log_z, abs=1e-5)


def test_schedules_and_thresholds_are_those_asked_for() -> None:
    """The effective sample size of these weights is 1.9 of 4."""
    log_weights = jnp.log(jnp.array([[0.75, 0.25, 0.05, 0.05]]) / 1.1)
    slots = jnp.arange(4)[None]
    for threshold, resamples in ((0.0, False), (0.38, False), (0.6, True), (1.0, True)):
        settings = make_settings("smc", {"ess_threshold": threshold})
        after = populations.resampler_of(settings)(
            jax.random.split(jax.random.key(0), 1), log_weights
        )
        kept = bool((after[0] == slots).all()) and bool((after[1] == log_weights).all())
        assert kept == (not resamples)
    for given, steps in (({}, (1, 2, 3, 4)), ({"block": 2}, (2, 4)), ({"block": 5}, ())):
        assert populations.schedule(make_settings("smc", given), 5) == steps
    assert populations.schedule(make_settings("smc", {"resample": "never"}), 5) == ()


@pytest.mark.parametrize(
    ("words", "same", "other"),
    [
        (
            ("lookahead-smc", "--resample", "every"),
            ("--rollout-tokens", "3"),
            ("--rollout-tokens", "1"),
        ),
        (("smc", "--resample", "every", "--bridge", "linear"), ("--ramp", "1"), ("--ramp", "3")),
    ],
)
def test_options_are_read(
    words: tuple[str, ...], same: tuple[str, ...], other: tuple[str, ...]
) -> None:
    """One is the default, for rows of three tokens; the other is not."""
    rest = ("--alpha", "4", "--particles", "4", "--num", "12", "--seed", "5")
    by_default, named, changed = (
        [(row["tokens"], row["log_weight"]) for row in draw("--method", *words, *rest, *option)]
        for option in ((), same, other)
    )
    assert by_default == named != changed


def test_names_are_those_of_the_schemes() -> None:
    for name, scheme in populations.RESAMPLERS.items():
        assert scheme is getattr(resampling, name)
    for name, scheme in populations.CONDITIONAL.items():
        assert scheme is getattr(resampling, f"conditional_{name}")


@pytest.mark.parametrize(
    ("method", "given", "num_rows"),
    [
        ("ancestral", {}, 1),
        ("smc", {"particles": 8}, 8),
        ("particle-gibbs", {"particles": 8}, 8),
        ("multiple-try-mh", {"tries": 5}, 5),
        ("lookahead-smc", {"particles": 8, "rollouts": 3}, 24),
        ("twisted-smc", {"particles": 8, "twist": "lookahead", "rollouts": 3}, 8 * 7 * 3),
        ("parallel-tempering", {"ladder": (1.0, 2.0, 4.0)}, 3),
    ],
)
def test_batches_are_cut_by_what_an_id_needs(
    method: str, given: dict[str, Any], num_rows: int
) -> None:
    settings = make_settings(method, given)
    assert rows_side_by_side(settings, METHODS[method], vocab_size=7) == num_rows


@pytest.mark.parametrize(
    ("alpha", "ladder"), [(1.5, (1.0, 1.5)), (2.0, (1.0, 2.0)), (3.5, (1.0, 2.0, 3.0, 3.5))]
)
def test_the_ladder_climbs_by_one_to_alpha(alpha: float, ladder: tuple[float, ...]) -> None:
    assert make_settings("parallel-tempering", {"alpha": alpha}).ladder == ladder


@pytest.mark.parametrize("method", ["rejection", "multiple-try-mh", "power-exact", "smc"])
def test_rows_do_not_depend_on_the_batch_split(method: str, reward: str) -> None:
    words = few(method, reward)
    assert draw(*words, "--batch-size", "3") == draw(*words)


def test_more_draws_go_on_where_fewer_ended(reward: str) -> None:
    words = ("--method", "ancestral", "--seed", "5")
    assert draw(*words, "--num", "9")[:4] == draw(*words, "--num", "4")
    other = draw("--method", "ancestral", "--seed", "6", "--num", "9")
    assert [row["tokens"] for row in other] != [row["tokens"] for row in draw(*words, "--num", "9")]


def test_prompts_have_draws_of_their_own() -> None:
    rows = draw("--method", "smc", "--particles", "2", "--num", "4", "--num-prompts", "2")
    ids = [(row["prompt_id"], row["sample_id"], row["population_id"]) for row in rows]
    assert ids == [(p, s, 4 * p + s // 2) for p in range(2) for s in range(8)]
    first, second = ([row["tokens"] for row in rows if row["prompt_id"] == p] for p in range(2))
    assert first != second


def test_a_prompt_is_recorded_and_continued() -> None:
    rows = draw("--method", "power-exact", "--prompt", "1", "--num", "20")
    assert {tuple(row["prompt"]) for row in rows} == {(1,)}
    for row in rows:
        whole = CASE["base"][" ".join(map(str, [1, *row["tokens"]]))]
        first = sum(p for name, p in CASE["base"].items() if name.startswith("1"))
        assert row["base_logp"] == pytest.approx(math.log(whole / first), abs=1e-5)


def test_greedy_rows_have_no_alpha() -> None:
    row = draw("--method", "temperature", "--temperature", "0")[0]
    assert (row["log_z_sum"], row["log_z_sum_reason"]) == (None, "NaN")
    assert (row["behavior_logp"], row["tokens"]) == (0.0, [1, 1, 0])


def test_one_row_of_a_population_is_approximate() -> None:
    rows = draw("--method", "smc", "--particles", "3", "--num", "5", "--draw-one")
    assert [row["population_id"] for row in rows] == list(range(5))
    assert {(row["law"], row["log_weight"]) for row in rows} == {("approximate", None)}
    assert all(row["log_Z_hat"] < 0 for row in rows)


def test_stdout_and_a_file_hold_the_same_bytes(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = [CASE_WORD, "--method", "ancestral", "--num", "3"]
    assert sample.main(words) == 0
    out, err = capfdbinary.readouterr()
    path = tmp_path / "rows.jsonl"
    assert sample.main([*words, "--out", str(path)]) == 0
    assert (path.read_bytes(), err) == (out, b"")
    assert len(read_rows(path)) == 3  # rows of the schema


def test_a_run_that_fails_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("before\n")
    words = ["--method", "rejection", "--num", "50", "--log-bound", "-4", "--batch-size", "25"]
    assert sample.main([CASE_WORD, *words, "--out", str(path)]) == 2
    assert "give a larger --log-bound" in capsys.readouterr().err
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]


SMC = ["--method", "smc"]
PT = ["--method", "parallel-tempering"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "sufix-mh"], "unknown method 'sufix-mh': did you mean 'suffix-mh'?"),
        ([], "--method"),
        ([*SMC, "--alpha", "0"], "--alpha: alpha 0.0: must be a finite number above 0"),
        ([*SMC, "--alpha", "nan"], "--alpha: alpha nan"),
        ([*SMC, "--proposal-alpha", "-1"], "--proposal-alpha: alpha -1.0"),
        ([*SMC, "--particles", "0"], "--particles 0: must be in 1.."),
        ([*SMC, "--resampler", "systemic"], "did you mean 'systematic'?"),
        ([*SMC, "--resample", "always"], "unknown --resample 'always'"),
        ([*SMC, "--ess-threshold", "1.5"], "--ess-threshold 1.5: must be in 0..1"),
        ([*SMC, "--block", "0"], "--block 0: must be in 1.."),
        ([*SMC, "--ramp", "2"], "--ramp: belongs to --bridge linear"),
        ([*SMC, "--bridge", "linear", "--proposal-alpha", "2"], "leave one of them out"),
        ([*SMC, "--top-p", "0.9"], "needs a proposal with the full support"),
        ([*SMC, "--steps", "3"], "--steps: not an option of 'smc'"),
        (["--method", "importance", "--top-k", "1"], "--top-k: 'importance' needs a proposal"),
        (["--method", "adapted-smc", "--proposal-alpha", "1"], "--proposal-alpha 1.0"),
        (["--method", "ancestral", "--alpha", "2"], "takes no options of its own"),
        (["--method", "ancestral", "--num", "0"], "--num 0: must be at least 1"),
        (["--method", "ancestral", "--num", "9999999999"], "--num 9999999999"),
        (["--method", "ancestral", "--seed", "-1"], "--seed -1: must be in 0.."),
        (["--method", "ancestral", "--prompt", "2"], "ends the sequence"),
        (["--method", "ancestral", "--prompt", "0 0 1"], "--prompt '0 0 1': leaves nothing"),
        (["--method", "ancestral", "--prompt", "1 0 1"], "--prompt"),
        (["--method", "ancestral", "--prompt", "7"], "must be in 0..2"),
        (["--method", "ancestral", "--max-new-tokens", "0"], "--max-new-tokens 0"),
        (["--method", "ancestral", "--out", "/nowhere/rows.jsonl"], "/nowhere/rows.jsonl"),
        (["--method", "temperature", "--temperature", "-1"], "--temperature -1.0"),
        (["--method", "temperature", "--top-k", "2147483648"], "must be in 1.."),
        (
            ["--method", "temperature", "--order", "top_k,top_k"],
            "--order top_k,top_k: names a rule twice",
        ),
        (["--method", "temperature", "--top-k", "0"], "--top-k 0: must be in 1.."),
        (["--method", "temperature", "--top-p", "nan"], "--top-p nan: must be in 0..1"),
        (["--method", "temperature", "--order", "vlm"], "unknown order 'vlm': did you mean 'vllm'"),
        (
            ["--method", "temperature", "--order", "tunix", "--min-p", ".1"],
            "no place in this order",
        ),
        (["--method", "rejection", "--alpha", "1", "--proposal-alpha", "2"], "--log-bound"),
        (["--method", "rejection", "--log-bound", "inf"], "--log-bound inf: must be a finite"),
        (["--method", "suffix-mh", "--steps", "-1"], "--steps -1: must be in 0.."),
        (["--method", "suffix-mh", "--cut", "middle"], "unknown --cut 'middle'"),
        (["--method", "multiple-try-mh", "--tries", "0"], "--tries 0"),
        ([*PT, "--ladder", "2,1"], "--ladder 2,1: must be two or more exponents in ascending"),
        ([*PT, "--ladder", "1,2", "--alpha", "4"], "--ladder 1,2: must end at --alpha 4"),
        ([*PT, "--ladder", "0,2"], "--ladder: alpha 0.0"),
        ([*PT, "--alpha", "0.5"], "--ladder: none is assumed for alpha 0.5"),
        (["--method", "particle-gibbs", "--particles", "1"], "--particles 1: particle-gibbs needs"),
        (["--method", "particle-gibbs", "--resampler", "ssp"], "has no conditional version"),
        (["--method", "lookahead-smc", "--rollouts", "0"], "--rollouts 0: must be in 1.."),
        (["--method", "twisted-smc", "--rollouts", "2"], "belongs to --twist lookahead"),
        (["--method", "tilted-mh"], "--reward: missing"),
        (["--method", "tilted-mh", "--reward", "none.json"], "none.json: cannot be read"),
    ],
)
def test_what_the_user_can_mend_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main([CASE_WORD, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1]", "must be a JSON object"),
        ("{", "is not JSON"),
        ('{"0 0": 0}', "prefix '0': missing"),
        ('{"0": NaN, "0 0": 0}', "prefix '0': log psi is nan"),
        ('{"0": null, "0_reason": "-infinity"}', "prefix '0': log psi is -inf"),
        ('{"0": "x"}', "prefix '0': 'x' is not a number"),
        ('{"0": 1e40}', "prefix '0': is beyond"),
    ],
)
def test_twists_are_checked_before_anything_runs(
    content: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = {"1": 0, "0 0": 0, "0 1": 0, "1 0": 0, "1 1": 0}
    path = tmp_path / "twist.json"
    whole = content
    if content.startswith('{"0":'):
        whole = json.dumps(rest)[:-1] + ", " + content[1:]
    path.write_text(whole)
    assert sample.main([CASE_WORD, "--method", "twisted-smc", "--twist", str(path)]) == 2
    err = capsys.readouterr().err
    assert (says in err, str(path) in err, err.count("\n")) == (True, True, 1)


def test_rewards_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reward.json"
    words = [CASE_WORD, "--method", "tilted-mh", "--reward", str(path), "--steps", "0"]
    lacking = {name: r for name, r in CASE["reward"].items() if name != "1 2"}
    mostly = {name: -math.inf for name in CASE["reward"]} | {"0 0 1": 1.0}
    for content, says in (
        (lacking, "sequence '1 2': missing"),
        (lacking | {"1 2": math.inf}, "sequence '1 2': is inf"),
        ({name: -math.inf for name in mostly}, "every sequence is forbidden"),
        (mostly, "chain 0: the reward forbids its first sequence"),
    ):
        path.write_text(json.dumps(content))
        assert sample.main(words) == 2
        err = capsys.readouterr().err
        assert (says in err, err.count("\n")) == (True, 1)
    assert sample.main([*words, "--beta", "0"]) == 2
    assert "--beta 0.0: must be a finite number above 0" in capsys.readouterr().err


def test_help_shows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in METHODS)
    options = {option for method in METHODS.values() for option in method.options}
    assert all(f"--{option.replace('_', '-')}" in shown for option in options)


def test_help_tells_the_defaults_of_the_methods(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert sample.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("(default: none)") == 1  # --bridge
    values = make_settings("smc", {})
    assert (
        f"drawn by weight, instead of all its weighted rows. (default: {values.draw_one})" in shown
    )
    assert f"in a sweep of particle-gibbs. (default: {values.particles})" in shown
    assert f"any real above 0. (default: {values.alpha:g})" in shown
    blocks = [make_settings(name, {}).block for name in ("smc", "blockwise-mh")]
    assert f"(default: {blocks[0]}; {blocks[1]} for blockwise-mh)" in shown

"""`rolloutlab exact --from-samples`: the small-alpha law from draws, beside the exact one."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.exact import main
from experiments.exact_from_samples import from_samples
from experiments.samplers.draws import ancestral
from experiments.samplers.rows import PromptBatch
from experiments.samplers.settings import Settings
from models.tabular.constructors import markov_table
from models.tabular.context_model import ContextModel
from models.tabular.toys import toy_e
from tests.theory.exact.tables import plain_sequences
from theory.exact import small_alpha_law, unroll
from theory.exact.context_table import after_prompt

QUANTITIES = {
    "kl_power_temperature",
    "kl_power_base",
    *(
        f"{log}ess_fraction_from_{proposal}"
        for log in ("", "log_")
        for proposal in ("temperature", "base")
    ),
}
ROWS = ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3), (0.3, 0.3, 0.4))
CHAIN = markov_table((0.5, 0.3, 0.2), ROWS, eos=(2,), horizon=5)
PROMPTS = np.array([[0, 1], [1, 0], [0, 0], [1, 0]], np.int32)
PROMPT_LENGTHS = np.array([2, 1, 0, 2], np.int32)


def called(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_predicts_what_the_exact_law_predicts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = called(capsys, "builtin:toy-e", "--alpha", "1.1,0.8,4", "--from-samples", "4096")
    law = small_alpha_law(unroll(toy_e()))
    assert found["model"] == {"name": "builtin:toy-e", "vocab_size": 3, "horizon": 4, "eos": [2]}
    assert found["from_samples"]["interval"] == {
        "level": 0.95,
        "method": "percentile bootstrap",
        "unit": "draws",
        "num_units": 4096,
    }
    assert found["from_samples"]["num_samples"] == 4096
    for block, alpha in zip(found["results"], (1.1, 0.8, 4.0), strict=True):
        assert block["alpha"] == alpha
        assert QUANTITIES | {"alpha", "radius", "inside_radius"} == set(block)
        for name in QUANTITIES:
            value = block[name]
            log_name = name if name.startswith(("log", "kl")) else f"log_{name}"
            truth = getattr(law, log_name)(alpha)
            # Ten standard errors of a variance from 4096 draws.
            estimate = value["estimate"] if log_name == name else np.log(value["estimate"])
            assert estimate == pytest.approx(truth, rel=0.25)
            assert value["low"] < value["estimate"] < value["high"]
        assert block["radius"]["estimate"] == pytest.approx(law.radius, rel=0.2)
    assert [block["inside_radius"] for block in found["results"]] == [True, True, False]


def test_the_sums_are_those_of_the_drawn_rows() -> None:
    """Mean entropy and variance of log p of the very rows that `sample --method ancestral` draws, summed by recursion."""
    model, num = ContextModel.from_table(CHAIN), 500
    prompts = np.zeros((1, 0), np.int32), np.zeros(1, np.int32)
    found = from_samples(model, *prompts, (2.0,), num, seed=3)["from_samples"]
    batch = PromptBatch(jnp.zeros((num, 0), jnp.int32), jnp.zeros(num, jnp.int32))
    rows = ancestral(jax.random.key(3), model, batch, jnp.arange(num), Settings())
    plain = {row.tokens: row for row in plain_sequences(CHAIN, 2.0)}
    drawn = [
        plain[tuple(tokens[:n].tolist())]
        for tokens, n in zip(rows.tokens, rows.lengths, strict=True)
    ]
    entropies = np.array([row.entropy_sum for row in drawn])
    assert found["entropy"] == pytest.approx(entropies.mean(), rel=1e-5)
    assert found["variance_entropy_sum"] == pytest.approx(entropies.var(ddof=1), rel=1e-5)
    variance = np.var([row.log_base for row in drawn], ddof=1)
    assert found["variance_base_logp"] == pytest.approx(variance, rel=1e-5)


def test_several_prompts_are_averaged_and_are_the_units() -> None:
    model = ContextModel.from_table(CHAIN)
    found = from_samples(model, PROMPTS, PROMPT_LENGTHS, (1.1,), 2000, seed=0)
    about = found["from_samples"]
    assert (about["num_prompts"], about["interval"]["unit"]) == (4, "prompts")
    laws = [
        small_alpha_law(unroll(after_prompt(CHAIN, tuple(prompt[:length].tolist()))))
        for prompt, length in zip(PROMPTS, PROMPT_LENGTHS, strict=True)
    ]
    block = found["results"][0]
    for name in ("kl_power_temperature", "kl_power_base"):
        truths = [getattr(law, name)(1.1) for law in laws]
        assert block[name]["estimate"] == pytest.approx(np.mean(truths), rel=0.1)
        assert block[name]["low"] >= 0.9 * min(truths)


def test_batches_change_nothing() -> None:
    model = ContextModel.from_table(CHAIN)
    whole, cut = (
        from_samples(model, PROMPTS, PROMPT_LENGTHS, (1.5,), 10, seed=1, batch_size=size)
        for size in (None, 7)
    )
    assert whole == cut


def test_alphas_beyond_the_radius_are_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # a pipe, as wide as need be
    assert main(["builtin:toy-e", "--alpha", "1.1,4", "--from-samples", "4096"]) == 0
    out, err = capsys.readouterr()
    assert "base samples" in out and "kl_power_temperature" in out and "over draws" in out
    assert err.count("\n") == 1 and "alpha 4" in err and "beyond" in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--from-samples", "2"], ("--from-samples 2", "at least 3")),
        (["--from-samples", "9999999999"], ("--from-samples 9999999999", "at most 1073741824")),
        (["--from-samples", "8", "--seed", "-1"], ("--seed -1", "0..4294967295")),
        (["--from-samples", "8", "--seed", "4294967296"], ("--seed 4294967296",)),
        (["--from-samples", "many"], ("from-samples", "many")),
        (["--from-samples", "8", "--alpha", "0"], ("alpha 0", "above 0")),
    ],
)
def test_what_the_user_can_mend(
    argv: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["builtin:toy-e", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    for word in words:
        assert word in err

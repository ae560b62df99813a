"""What MODEL and its prompts may be: shipped transformers, folders of two kinds, tasks, files and token ids; and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments import sample
from experiments.language_model import is_transformer, load_language_model
from experiments.prompts import Prompt, PromptSource, padded, task_prompts
from models.pretrained.own_format import save_folder
from models.tasks.registry import task
from models.tasks.text import parse_prompts, render
from models.transformer import random_transformer
from tests.models.pretrained.published import PUBLISHED
from tests.models.transformer.tables import small
from theory.errors import InvalidInput

SHIPPED = "builtin:countdown-3"
COUNTDOWN = task("countdown-3")
TEXT = "2 7 5 1 9 ="
IDS = tuple(np.asarray(parse_prompts(COUNTDOWN, [TEXT]).tokens)[0].tolist())
GPT2 = str(PUBLISHED / "gpt2")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of ours that belongs to no task."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_folder(folder, small(), {})
    return str(folder)


def write_prompts(folder: Path, *rows: Any) -> str:
    path = folder / "prompts.jsonl"
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return str(path)


def test_what_is_a_transformer(checkpoint: str) -> None:
    for name in (SHIPPED, checkpoint, GPT2):
        assert is_transformer(name)
    for name in ("builtin:toy-e", "countdown-3", "builtin:", "", f"{checkpoint}/config.json"):
        assert not is_transformer(name)


def test_a_shipped_model_continues_the_test_prompts_of_its_task() -> None:
    loaded = load_language_model(SHIPPED, PromptSource(num=5), None)
    assert loaded.prompts == tuple(task_prompts(COUNTDOWN, 5))
    assert [prompt.prompt_id for prompt in loaded.prompts] == list(range(5))
    assert (loaded.task, loaded.toy, loaded.model.horizon) == (COUNTDOWN, None, COUNTDOWN.horizon)
    first = COUNTDOWN.prompts("test", 5, 0)
    shown = [prompt.read for prompt in loaded.prompts]
    assert render(COUNTDOWN, padded(shown)) == render(COUNTDOWN, first)
    assert all(prompt.tokens == prompt.read for prompt in loaded.prompts)
    (one,) = load_language_model(SHIPPED, PromptSource(), 3).prompts
    assert one == loaded.prompts[0]


def test_the_horizon_is_that_asked_for_else_the_tasks_else_the_models(checkpoint: str) -> None:
    prompt = PromptSource(prompt="1")
    assert load_language_model(SHIPPED, PromptSource(), 3).model.horizon == 3
    assert load_language_model(checkpoint, prompt, None).model.horizon == small().horizon
    assert load_language_model(GPT2, prompt, 2).model.horizon == 2


def test_a_task_says_how_long_its_completions_are(tmp_path: Path) -> None:
    config = replace(small().config, vocab_size=16, eos=(COUNTDOWN.eos,))
    model = random_transformer(jax.random.key(0), config, horizon=3)
    save_folder(tmp_path / "own", model, {"task": "countdown-4"})
    own = load_language_model(str(tmp_path / "own"), PromptSource(), None)
    assert (own.task, own.model.horizon, len(own.prompts[0].read)) == (task("countdown-4"), 3, 7)
    other = load_language_model(str(tmp_path / "own"), PromptSource(task="countdown-3"), None)
    assert (other.task, other.model.horizon, len(other.prompts[0].read)) == (COUNTDOWN, 6, 6)


def test_prompts_of_token_ids(checkpoint: str) -> None:
    loaded = load_language_model(checkpoint, PromptSource(prompt="3 0 1", num=2), None)
    assert loaded.prompts == (Prompt(0, (3, 0, 1), (3, 0, 1)), Prompt(1, (3, 0, 1), (3, 0, 1)))
    assert loaded.task is None
    assert load_language_model(checkpoint, PromptSource(prompt=""), None).prompts[0].read == ()
    # A verdict only where the prompt is one of the task.
    words = " ".join(map(str, IDS))
    assert load_language_model(SHIPPED, PromptSource(prompt=words), None).task is COUNTDOWN
    for other in ("3 4", " ".join(words.split()[::-1]), ""):
        assert load_language_model(SHIPPED, PromptSource(prompt=other), None).task is None


def test_prompts_of_a_file(tmp_path: Path) -> None:
    """Ids or text; named or numbered by their row; blank lines count for nothing."""
    path = write_prompts(
        tmp_path, {"prompt": TEXT}, "", {"prompt": list(IDS), "prompt_id": "b", "x": 1}
    )
    loaded = load_language_model(SHIPPED, PromptSource(file=path), None)
    assert loaded.prompts == (Prompt(0, IDS, IDS), Prompt("b", IDS, IDS))
    assert loaded.task is COUNTDOWN
    assert len(load_language_model(SHIPPED, PromptSource(file=path, num=1), None).prompts) == 1
    mixed = write_prompts(tmp_path, {"prompt": TEXT}, {"prompt": [1]})
    assert load_language_model(SHIPPED, PromptSource(file=mixed), None).task is None


def test_text_is_read_by_the_tokenizer_of_the_folder(tmp_path: Path) -> None:
    folders = [path.parent for path in PUBLISHED.glob("*/tokenizer.json")]
    assert folders
    path = write_prompts(tmp_path, {"prompt": "ab"})
    (prompt,) = load_language_model(str(folders[0]), PromptSource(file=path), 2).prompts
    assert len(prompt.read) > 0


def test_half_a_character_is_no_text(tmp_path: Path) -> None:
    path = write_prompts(tmp_path, {"prompt": "\ud800"})
    with pytest.raises(InvalidInput, match="row 1, field 'prompt': has half of a surrogate pair"):
        load_language_model(str(PUBLISHED / "llama3"), PromptSource(file=path), 2)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_rows_never_replace_a_file_of_the_model(
    checkpoint: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Path(checkpoint) / name
    before = target.read_bytes()
    words = [checkpoint, "--method", "ancestral", "--prompt", "1", "--out", str(target)]
    assert sample.main(words) == 2
    assert "is a file of the input" in capsys.readouterr().err
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "holds no prompts"),
        (["{"], "row 1: not a line of JSON"),
        (['{"prompt": [1], "prompt": [2]}'], "row 1, field 'prompt': there twice"),
        (["", "[" * 5000], "row 2: not a line of JSON"),
        (["[1]"], "row 1: not a JSON object"),
        ([{"prompt": [1]}, {"tokens": [1]}], "row 2: has no field 'prompt'"),
        ([{"prompt": [1.0]}], "field 'prompt': must be token ids or a text"),
        ([{"prompt": [True]}], "field 'prompt': must be token ids or a text"),
        ([{"prompt": [-1]}], "field 'prompt': must be token ids or a text"),
        ([{"prompt": 7}], "field 'prompt': must be token ids or a text"),
        ([{"prompt": [1], "prompt_id": True}], "field 'prompt_id'"),
        ([{"prompt": [1], "prompt_id": 1.5}], "field 'prompt_id'"),
        (
            [{"prompt": [1], "prompt_id": 2**63}],
            "row 1, field 'prompt_id': takes more than 64 bits",
        ),
        ([{"prompt": [1], "prompt_id": 1}, {"prompt": [1]}], "prompt_id 1 twice"),
        ([{"prompt": "2 7 x"}], "row 1, task countdown-3, token 2"),
        ([{"prompt": "2 7 5"}], "is no prompt of it"),
        ([{"prompt": [1]}, {"prompt": [2, 99]}], "prompt 1: token 99 at position 1"),
        ([{"prompt": [99]}], "prompts.jsonl, prompt 0: token 99"),
        ([{"prompt": [1] * 500}], "prompt 0: 500 tokens and 6 new ones"),
        ([{"prompt": [1] * 12}], "at most 12; give a shorter prompt"),
        ([{"prompt": [1] * 11}], "at most 12; give a smaller --max-new-tokens"),
    ],
)
def test_a_file_that_does_not_suit(
    rows: list[Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_prompts(tmp_path, *rows)
    words = [SHIPPED, "--method", "ancestral", "--prompts", path, "--out", str(tmp_path / "out")]
    assert sample.main(words) == 2
    out, err = capsys.readouterr()
    assert (out, says in err, err.count("\n")) == ("", True, 1), err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            [SHIPPED, "--task", "countdown-3", "--prompt", "1"],
            "--prompt and --task: both name prompts",
        ),
        ([SHIPPED, "--prompts", "x", "--task", "countdown-3"], "--task and --prompts: both name"),
        ([SHIPPED, "--task", "countdwn-3"], "no task 'countdwn-3', there is countdown-3"),
        ([SHIPPED, "--task", "sudoku-4"], "--task sudoku-4: has"),
        ([SHIPPED, "--prompts", ""], "--prompts '': is empty, give a file of JSON lines"),
        ([SHIPPED, "--prompts", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        ([SHIPPED, "--prompt", "1 x"], "--prompt '1 x': give token ids"),
        ([SHIPPED, "--prompt", "-1"], "--prompt '-1': give token ids"),
        ([SHIPPED, "--prompt", "99"], "token 99 at position 0"),
        ([SHIPPED, "--max-new-tokens", "0"], "--max-new-tokens 0: must be in 1.."),
        ([SHIPPED, "--max-new-tokens", "9999999"], "--max-new-tokens 9999999: must be in 1.."),
        ([SHIPPED, "--max-new-tokens", "5000"], "give a smaller --max-new-tokens"),
        ([SHIPPED, "--num-prompts", "0"], "--num-prompts 0: must be at least 1"),
        ([SHIPPED, "--num", "99999", "--num-prompts", "99999"], "--num 99999"),
        ([GPT2], "names no horizon"),
        ([GPT2, "--max-new-tokens", "2"], "belongs to no task, give --prompts FILE"),
        (["builtin:toy-e", "--task", "countdown-3"], "'builtin:toy-e' is a toy model"),
        (["builtin:toy-e", "--prompts", "x.jsonl"], "'builtin:toy-e' is a toy model"),
        (["builtin:countdown-5"], "countdown-5"),
        ([str(PUBLISHED)], "config.json"),
    ],
)
def test_a_command_line_that_does_not_suit(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main([*words, "--method", "ancestral", "--out", "/dev/null"]) == 2
    out, err = capsys.readouterr()
    assert (out, says in err, err.count("\n")) == ("", True, 1), err


def test_more_prompts_than_a_file_has_are_refused(tmp_path: Path) -> None:
    path = write_prompts(tmp_path, {"prompt": [1]})
    with pytest.raises(InvalidInput, match=r"--num-prompts 2: .*prompts\.jsonl has 1"):
        load_language_model(SHIPPED, PromptSource(file=path, num=2), None)


@pytest.mark.parametrize(
    ("lengths", "width"), [((0, 0), 0), ((1, 0), 1), ((3, 2), 4), ((5,), 8), ((8, 1), 8)]
)
def test_prompts_stand_side_by_side_in_few_widths(lengths: tuple[int, ...], width: int) -> None:
    prompts = [tuple(range(1, length + 1)) for length in lengths]
    tokens, found = padded(prompts)
    assert (tokens.shape, found.tolist()) == ((len(lengths), width), list(lengths))
    for row, prompt in zip(np.asarray(tokens), prompts, strict=True):
        assert row.tolist() == [*prompt, *[0] * (width - len(prompt))]

"""`rolloutlab validate`: what it writes, what it refuses, and kernels of the user's own."""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.progress import track
from experiments.validate import SIZES, compiler, main, preset_cases, validate
from experiments.validation.cases import Case, Sizes
from experiments.validation.findings import Found
from experiments.validation.registry import Entry
from tests.conftest import ROOT
from theory.errors import InvalidInput

FAST = ("--preset", "quick", "--kernel", "top-p,systematic")

OWN = '''
import sys

from theory.mcmc import suffix_regeneration, uniform_cut
from theory.protocols import Kernel


def right(alpha):
    """Suffix moves with proposals from the base model."""
    return suffix_regeneration(alpha, 1.0, uniform_cut())


def wrong(alpha):
    """Aims at another power."""
    return suffix_regeneration(alpha + 0.5, 1.0, uniform_cut())


def broken(alpha):
    """Its step cannot run."""
    return Kernel(right(alpha).init, lambda key, model, chains: chains.nothing)


def other_state(alpha):
    """Its state is a tuple."""
    return Kernel(lambda key, model, prompts: (prompts.lengths,), lambda key, model, state: (state, ()))


def leaves(alpha):
    """Ends the program."""
    sys.exit("bye")


def leaves_init(alpha):
    return Kernel(lambda key, model, prompts: sys.exit(), right(alpha).step)


def leaves_step(alpha):
    return Kernel(right(alpha).init, lambda key, model, chains: sys.exit(0))


number = 3
'''

TALKING = """
import jax
from theory.mcmc import suffix_regeneration, uniform_cut
from theory.protocols import Kernel

print("hello from import")


def kernel(alpha):
    print("hello from function")
    inner = suffix_regeneration(alpha, 1.0, uniform_cut())

    def step(key, model, chains):
        print("hello from trace")
        jax.debug.print("hello from run {}", chains.iteration)
        return inner.step(key, model, chains)

    return Kernel(inner.init, step)
"""


def result(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> dict[str, Any]:
    assert main([*argv, "--json", "-"]) == status
    return json.loads(capsys.readouterr().out)


def test_rows_are_those_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, *FAST)
    assert found["counts"] == {"ok": len(found["rows"]), "biased": 0, "underpowered": 0}
    assert found["family_level"] == 1e-3
    contract = {
        "kernel", "case", "quantity", "estimate", "truth", "standard_error", "z", "minimum_detectable",
        "verdict",
    }  # fmt: skip
    for row in found["rows"]:
        assert contract < row.keys()
        assert row["minimum_detectable"] <= row["limit"]
    assert {row["kernel"] for row in found["rows"]} == {"top-p", "systematic"}
    assert {row["case"] for row in found["rows"]} == {"toy-e", "random-tree", "toy-b"}


def test_same_seed_same_bytes_other_seed_other_draws(capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    for seed in ("0", "0", "1"):
        assert (
            main(["--preset", "quick", "--kernel", "systematic", "--seed", seed, "--json", "-"])
            == 0
        )
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_a_row_does_not_depend_on_what_else_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    both = result(capsys, *FAST)["rows"]
    alone = result(capsys, "--preset", "quick", "--kernel", "systematic")["rows"]
    assert [row for row in both if row["kernel"] == "systematic"] == alone


def test_a_case_of_the_users_own(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(ROOT / "tests" / "data" / "reference" / "case-1.json")
    found = result(capsys, *FAST, "--case", path)
    assert {row["case"] for row in found["rows"]} == {path}


def test_figures_are_drawn_a_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FAST, "--figures", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"validation_{family}.{ending}"
        for family in ("decoding", "resampling")
        for ending in ("pdf", "png")
    }
    out, err = capsys.readouterr()
    assert "top-p" in out
    assert "validation_decoding.pdf" in err


def test_kernels_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "particle-gibbs mcmc" in lines
    assert "conditional-smc smc" in lines


@pytest.mark.parametrize("error", [KeyboardInterrupt, InvalidInput])
def test_after_ctrl_c_or_an_error_no_case_is_begun(error: type[BaseException]) -> None:
    seen: list[str] = []
    begun = threading.Event()

    def fails(case: Case, sizes: Sizes, seed: int) -> Found:
        assert begun.wait(60)
        raise error("told")

    def slow(case: Case, sizes: Sizes, seed: int) -> Found:
        seen.append(case.name)
        begun.set()
        time.sleep(0.002)
        return Found([])

    entries = {"fails": Entry("own", lambda jit: fails), "slow": Entry("own", lambda jit: slow)}
    cases = preset_cases("demo") * 2000
    with pytest.raises(error, match="told"):
        validate(entries, cases, SIZES["demo"], 0, compiler("demo"), track)
    assert len(seen) < len(cases)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_kernels.py").write_text(OWN)
    (tmp_path / "empty_module.py").write_text("")
    (tmp_path / "leaving_module.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("own_kernels", "empty_module", "leaving_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_kernel_of_the_users_own(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("--preset", "quick", "--case", "builtin:toy-e", "--kernel")
    right = result(capsys, *argv, "own_kernels:right")
    assert {row["verdict"] for row in right["rows"]} == {"ok"}
    p_values = [each["value"] for each in right["distances"] if "reversibility" in each["quantity"]]
    assert min(p_values) > 1e-6
    wrong = result(capsys, *argv, "own_kernels:wrong", status=1)
    verdicts = {row["quantity"]: row["verdict"] for row in wrong["rows"]}
    assert verdicts["invariance of the power law, after 5 steps"] == "biased"


def test_what_a_kernel_prints_is_not_in_the_result(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "talking.py").write_text(TALKING)
    sys.modules.pop("talking", None)
    argv = ["--preset", "quick", "--case", "builtin:toy-b", "--kernel", "talking:kernel"]
    assert main([*argv, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["counts"]["ok"] > 0
    for place in ("import", "function", "trace", "run"):
        assert f"hello from {place}" in err


def test_a_result_does_not_replace_a_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ROOT / "tests" / "data" / "reference" / "case-1.json"
    copy = tmp_path / "case.json"
    copy.write_bytes(source.read_bytes())
    (tmp_path / "link.json").symlink_to(copy)
    cases = ("--case", f"{source},{copy}")
    assert main([*FAST, *cases, "--json", str(tmp_path / "link.json")]) == 2
    assert "is the input itself" in capsys.readouterr().err
    assert copy.read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--kernel", "sistematic"), "did you mean 'systematic'?"),
        (("--kernel", "no_such_module:f"), "cannot be imported (ModuleNotFoundError"),
        (
            ("--kernel", "own_kernels:nothing"),
            "has no function 'nothing': it has right, wrong, broken, ",
        ),
        (("--kernel", "own_kernels:rigth"), "did you mean 'right'?"),
        (("--kernel", "own_kernels:number"), "has no function 'number'"),
        (
            ("--kernel", "empty_module:f"),
            "no function 'f': define a function(alpha) -> Kernel there",
        ),
        (("--kernel", "leaving_module:f"), "cannot be imported (SystemExit: 0)"),
        (
            ("--kernel", "own_kernels:leaves"),
            "gives no kernel with init and step (SystemExit: bye)",
        ),
        (("--kernel", "own_kernels:leaves_init"), "fails on case 'builtin:toy-b' (SystemExit)"),
        (("--kernel", "own_kernels:leaves_step"), "fails on case 'builtin:toy-b' (SystemExit: 0)"),
        (("--kernel", "own_kernels:broken"), "fails on case 'builtin:toy-b'"),
        (("--kernel", "own_kernels:other_state"), "must be theory.mcmc.Chains"),
        (("--case", "builtin:random-markov"), "must be in 2..400"),
        (("--case", "nowhere.json"), "no such file"),
        (("--seed", "-1"), "--seed -1"),
        (("--json", "nowhere/out.json"), "folder does not exist"),
    ],
)
def test_bad_input_is_one_line(
    argv: tuple[str, ...], told: str, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = () if "--case" in argv else ("--case", "builtin:toy-b")
    assert main(["--preset", "quick", *argv, *small]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert len(err.splitlines()) == 1


def test_the_quick_preset_is_ok_on_all_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "--preset", "quick")
    assert found["counts"]["ok"] == len(found["rows"]) > 250


@pytest.mark.slow
def test_the_default_preset_is_ok_on_all_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys)
    assert found["counts"]["ok"] == len(found["rows"]) > 1000
    assert {row["kernel"] for row in found["rows"]} > {"smc", "parallel-tempering"}

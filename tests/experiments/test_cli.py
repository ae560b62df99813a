import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import cli

ROOT = Path(__file__).resolve().parents[2]

FAST = ("exact", "analyze", "allocate")
"""Each start of Python takes seconds."""


def run(*command: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_help_names_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    for word in ("--help", "-h"):
        assert cli.main([word]) == 0
        out, err = capfd.readouterr()
        assert err == ""
        width = max(map(len, cli.COMMANDS)) + 2
        for name, meaning in cli.COMMANDS.items():
            assert f"{name:{width}}{meaning}\n" in out


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("rolloutlab 0.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no command given"),
        (["exakt"], "unknown command 'exakt': did you mean 'exact'?"),
        (["--verson"], "unknown command '--verson'"),
        (["command_line"], "unknown command 'command_line'"),
        (["models", "--jsn", "-"], "rolloutlab models: Unrecognized options: --jsn, -, did you"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capfd: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert cli.main(words) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err
    assert "--help" in err


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in cli.COMMANDS],
)
def test_a_command_and_its_module_are_one_program(
    capfd: pytest.CaptureFixture[str], name: str
) -> None:
    assert cli.main([name, "--nope"]) == 2
    line = capfd.readouterr().err
    assert line.startswith(f"rolloutlab {name}: ")
    done = run(sys.executable, "-m", f"experiments.{name.replace('-', '_')}", "--nope")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_a_command_imports_no_other() -> None:
    code = (
        "import sys; from experiments.cli import main; main(['models', '--json', '/dev/null']); "
        "print('matplotlib' in sys.modules, 'experiments.figures' in sys.modules)"
    )
    assert run(sys.executable, "-c", code).stdout == "False False\n"


def test_help_is_quick_to_import() -> None:
    code = "import sys, experiments.cli; print('jax' in sys.modules, 'pyarrow' in sys.modules)"
    assert run(sys.executable, "-c", code).stdout == "False False\n"


def test_the_console_script_is_this_program() -> None:
    script = str(Path(sys.executable).with_name("rolloutlab"))
    done = run(script, "nope")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_the_customary_name_works_from_anywhere(tmp_path: Path) -> None:
    script = os.path.relpath(ROOT / "scripts" / "power_vs_temperature.py", tmp_path)
    done = run(sys.executable, script, "--nope", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rolloutlab power-vs-temperature: Unrecognized options: --nope")


def test_the_customary_name_of_analyze() -> None:
    done = run(sys.executable, "scripts/analyze_rollouts.py", "rollouts.jsonl", "--k", "1,2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rolloutlab analyze: rollouts.jsonl: no such file\n"

"""`rolloutlab validate`: the kernels and estimators against the truth of models that can be enumerated."""

import contextlib
import functools
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import jax

from experiments import tables
from experiments.command_line import Words, default, program, unknown
from experiments.json_output import write_json
from experiments.output import STDOUT, check_keeps, check_writable, make_folder
from experiments.progress import Progress, say, track
from experiments.terminal import make_table, print_table, report_console
from experiments.validation.cases import Case, Jit, Sizes, builtin_cases, file_case
from experiments.validation.findings import (
    FAMILY_LEVEL,
    LAW,
    OK,
    VERDICTS,
    Distance,
    Finding,
    Found,
    Row,
    judge,
    row_level,
)
from experiments.validation.own_kernel import own_check
from experiments.validation.registry import FAMILIES, KERNELS, QUICK, QUICK_CASES, Entry
from paper_figures import validation_overview
from paper_figures.build import draw_to_files
from theory.errors import InvalidInput

OWN = "own"
"""Family of kernels of the user's own."""

_SMALL = Sizes(8192, 8192, 0.1, 0.3, 0.15, 0.5, (2,))

SIZES: Mapping[str, Sizes] = {
    "demo": _SMALL,
    "quick": _SMALL,
    "default": Sizes(32768, 65536, 0.05, 0.15, 0.1, 0.3, (2, 16, 64)),
}

_THREADS = 2

# Of the small presets, whose programs run for a shorter time than they take to compile.
_FAST_COMPILATION = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


@dataclass(frozen=True)
class Arguments:
    """The kernels and estimators of rolloutlab against the exact truth of small models.

    A row compares an estimate with its truth and says the smallest bias that it could have seen. Verdicts: ok; biased (p below the level of the
    row; all rows of a run share a false-alarm probability of 1e-3); underpowered (that smallest bias is above the row's limit). What is
    biased by design at finite cost is compared with its own exact finite-run law; its distance to the target is reported and not judged.
    Always computed anew. Exit status 1 unless all rows are ok.
    """

    kernel: Annotated[Words, default("all of the preset")] = ()
    """Kernels to run (--list); module:function is a function(alpha) -> theory.protocols.Kernel of your own, sought in the current folder first."""

    case: Annotated[Words, default("five small ones; three for quick, one for demo")] = ()
    """Models to run on: JSON model files or builtin:NAME, at most 400 sequences each."""

    preset: Literal["demo", "quick", "default"] = "default"
    """demo: every kernel on one model; quick: fewer kernels on three; both a minute or two, with few draws. default: every kernel on five, in under five."""

    seed: int = 0
    """Of all random numbers."""

    json: str | None = None
    """File for the machine-readable result, - for stdout."""

    figures: Path | None = None
    """Folder for one figure a family."""

    list: bool = False
    """Name the kernels with their families, one a line, and stop."""


def run(arguments: Arguments) -> int:
    """Validate and report.

    Args:
        arguments: of the command.

    Returns:
        0, or 1 unless all rows are ok.
    """
    if arguments.list:
        print("\n".join(f"{name} {entry.family}" for name, entry in KERNELS.items()))
        return 0
    if not 0 <= arguments.seed < 2**32:
        raise InvalidInput(f"--seed {arguments.seed}: must be in 0..{2**32 - 1}")
    if arguments.json is not None:
        for path in arguments.case:
            check_keeps(arguments.json, path)
        check_writable(arguments.json)
    if arguments.figures is not None:
        make_folder(arguments.figures)
    sizes, jit = SIZES[arguments.preset], compiler(arguments.preset)
    cases = [file_case(path) for path in arguments.case] or preset_cases(arguments.preset)
    # Stdout is for the result: a user's kernel may print when it is imported, traced and run.
    with contextlib.redirect_stdout(sys.stderr):
        entries = chosen(arguments.kernel, arguments.preset)
        rows, distances, omitted = validate(entries, cases, sizes, arguments.seed, jit, track)
        jax.effects_barrier()  # what its compiled steps still print
    _print_report(arguments, rows, distances, omitted)
    if arguments.json is not None:
        write_json(document(arguments, rows, distances, omitted), arguments.json)
    if arguments.figures is not None:
        for path in draw_figures(rows, arguments.figures):
            say(str(path))
    return 0 if all(row.verdict == OK for row in rows) else 1


def chosen(names: tuple[str, ...], preset: str) -> dict[str, Entry]:
    """The kernels to run.

    Args:
        names: as given; none means those of the preset.
        preset: demo, quick or default.

    Returns:
        Name to entry.

    Raises:
        InvalidInput: no such kernel.
    """
    entries: dict[str, Entry] = {}
    for name in names or (QUICK if preset == "quick" else KERNELS):
        if ":" in name:
            entries[name] = Entry(OWN, own_check(name))
        elif name in KERNELS:
            entries[name] = KERNELS[name]
        else:
            raise unknown("kernel", name, KERNELS)
    return entries


def preset_cases(preset: str) -> list[Case]:
    """The built-in cases of a preset.

    Args:
        preset: demo, quick or default.

    Returns:
        All of them, for quick those that differ most, for demo the first.
    """
    cases = builtin_cases()
    if preset == "demo":
        return cases[:1]
    return [case for case in cases if preset != "quick" or case.name in QUICK_CASES]


def compiler(preset: str) -> Jit:
    """How the programs of a preset are compiled.

    Args:
        preset: demo, quick or default.

    Returns:
        `jax.jit`, but for default with what takes the compiler longest switched off.
    """
    if preset != "default":
        return functools.partial(jax.jit, compiler_options=_FAST_COMPILATION)
    return jax.jit


def validate(
    entries: Mapping[str, Entry],
    cases: Iterable[Case],
    sizes: Sizes,
    seed: int,
    jit: Jit,
    progress: Progress,
) -> tuple[list[Row], list[Distance], list[tuple[str, str]]]:
    """Run every kernel on every case.

    Args:
        entries: the kernels; each is looked up in `theory` when its turn comes.
        cases: the models.
        sizes: how much is drawn and what must be seen.
        seed: of all random numbers.
        jit: how programs are compiled.
        progress: shows how far the work has come.

    Returns:
        Rows, distances that are reported and not judged, and pairs (kernel, case) that cannot be enumerated.
    """
    cases = list(cases)
    found: list[tuple[str, str, str, Finding]] = []
    distances: list[Distance] = []
    omitted: list[tuple[str, str]] = []
    stopped = threading.Event()

    def outcomes(entry: Entry) -> list[Found]:
        check = entry.build(jit)
        return [check(case, sizes, seed) for case in cases if not stopped.is_set()]

    # Most of the time goes into compiling, which leaves the interpreter free for another kernel.
    pool = ThreadPoolExecutor(max_workers=_THREADS)
    try:
        every = zip(entries.items(), pool.map(outcomes, entries.values()), strict=True)
        for (name, entry), by_case in progress(every, "validating", len(entries)):
            for case, outcome in zip(cases, by_case, strict=True):
                if not outcome.findings:
                    omitted.append((name, case.name))
                found += [(entry.family, name, case.name, each) for each in outcome.findings]
                distances += [Distance(name, case.name, *each) for each in outcome.distances]
    finally:
        stopped.set()  # after an error or Ctrl-C nobody waits for more than the case at hand
        pool.shutdown(cancel_futures=True)
    level = row_level(len(found))
    return [judge(*each, level) for each in found], distances, omitted


def document(
    arguments: Arguments,
    rows: list[Row],
    distances: list[Distance],
    omitted: list[tuple[str, str]],
) -> dict[str, Any]:
    """The JSON document.

    Args:
        arguments: of the command.
        rows: with verdicts.
        distances: reported, not judged.
        omitted: (kernel, case) too large to enumerate.

    Returns:
        {"preset", "seed", "family_level", "row_level", "counts", "rows", "distances", "omitted"}.
    """
    return {
        "preset": arguments.preset,
        "seed": arguments.seed,
        "family_level": FAMILY_LEVEL,
        "row_level": row_level(len(rows)),
        "counts": _counts(rows),
        "rows": rows,
        "distances": distances,
        "omitted": [
            {"kernel": kernel, "case": case, "reason": "too many states to enumerate"}
            for kernel, case in omitted
        ],
    }


def draw_figures(rows: list[Row], folder: Path) -> list[Path]:
    """One figure a family.

    Args:
        rows: with verdicts.
        folder: where to.

    Returns:
        The files, PDF and PNG.
    """
    files: list[Path] = []
    for family in (*FAMILIES, OWN):
        members = [row for row in rows if row.family == family]
        if members:
            table = tables.from_rows(
                validation_overview.SCHEMA, [validation_overview.as_row(row) for row in members]
            )
            figure = validation_overview.draw(table, row_level(len(rows)))
            files += draw_to_files(figure, folder, f"validation_{family}")
    return files


def _counts(rows: list[Row]) -> dict[str, int]:
    return {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}


def _print_report(
    arguments: Arguments,
    rows: list[Row],
    distances: list[Distance],
    omitted: list[tuple[str, str]],
) -> None:
    """Verdicts by kernel, and every row that is not ok."""
    console = report_console(stderr=arguments.json == STDOUT)
    table = make_table("kernel", "family", "rows", *VERDICTS, "furthest z", "away from target")
    for name in dict.fromkeys(row.kernel for row in rows):
        members = [row for row in rows if row.kernel == name]
        away = [each.value for each in distances if each.kernel == name]
        counts = (str(count) for count in _counts(members).values())
        # Of a law only a large z says something: the test is one-sided.
        furthest = max(row.z if row.kind == LAW else abs(row.z) for row in members)
        table.add_row(
            name,
            members[0].family,
            str(len(members)),
            *counts,
            f"{furthest:.2f}",
            f"{max(away, key=abs):.3g}" if away else "",
        )
    print_table(console, f"{len(rows)} rows, level of a row {row_level(len(rows)):.1g}", table)
    bad = [row for row in rows if row.verdict != OK]
    if bad:
        table = make_table(
            "row", "verdict", "estimate", "truth", "z", "smallest bias seen", "limit"
        )
        for row in bad:
            numbers = (row.estimate, row.truth, row.z, row.minimum_detectable, row.limit)
            name = f"{row.kernel} on {row.case}: {row.quantity}"
            table.add_row(name, row.verdict, *(f"{number:.4g}" for number in numbers))
        print_table(console, "not ok", table)
    for kernel, case in omitted:
        console.print(f"{kernel} on {case}: left out, too many states to enumerate")


main = program("rolloutlab validate", Arguments, run)

if __name__ == "__main__":
    sys.exit(main())

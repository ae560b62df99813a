"""`rolloutlab analyze` against two programs that read the same log: DuckDB that only scans the fields, and pandas that computes the statistics.

Ours gives counts, pass@k, majority and best-of-n at k = 1, 2, 4, 8, the rate of unique answers, tokens, the effective sample size, and bootstrap intervals over tasks; pandas gives
the same. The log is made by `made_log` in a temporary folder.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from experiments.benchmarks.made_log import COLUMNS, write_log
from experiments.benchmarks.pairing import BenchmarkReport, compare
from experiments.benchmarks.pandas_peer import customary_statistics, fair_statistics
from experiments.rollout_logs.analysis import Analysis
from experiments.rollout_logs.engine import analyze_logs
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.reading import open_logs

OPTIONS = AnalysisOptions(
    only=frozenset(
        (
            "pass@K",
            "majority@K",
            "best_of_n@K",
            "unique_answer_rate",
            "tokens_mean",
            "tokens_median",
            "ess",
        )
    )
)


def run_scan(quick: bool) -> BenchmarkReport:
    """Against DuckDB reading the same fields of 10^7 rows.

    Args:
        quick: 10^6 rows.

    Returns:
        The report; a note says how much memory a process of its own took at most.
    """
    rows = 1_000_000 if quick else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        write_log(log, rows)
        sizes = {"rows": rows, "bytes": log.stat().st_size}
        result = compare("logs_vs_duckdb_scan", lambda: analyze(log), lambda: _scan(log), sizes)
        peak = _peak_memory(log)
    note = f"a process that analyzes the log takes {peak / 1e9:.2f} GB of memory at most"
    return BenchmarkReport(result, (note,))


def run_pandas(quick: bool) -> BenchmarkReport:
    """Against a pandas script that reads with pyarrow and groups without loops, 10^6 rows.

    Args:
        quick: 10^5 rows.

    Returns:
        The report; notes give the difference of the numbers, and the time of the customary script from a single run.
    """
    rows = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        write_log(log, rows)
        theirs = fair_statistics(log)
        found = analyze(log).statistics
        ours = {each.name: each.value or 0.0 for each in found}
        gaps = [abs(theirs[name] - value) for name, value in ours.items()]
        ends = [
            max(
                abs(theirs[f"{each.name} low"] - each.interval.low),
                abs(theirs[f"{each.name} high"] - each.interval.high),
            )
            / (each.interval.high - each.interval.low)
            for each in found
            if each.interval is not None and f"{each.name} low" in theirs
        ]
        result = compare(
            "logs_vs_pandas", lambda: analyze(log), lambda: fair_statistics(log), {"rows": rows}
        )
        begin = time.perf_counter()
        customary_statistics(log)
        customary = time.perf_counter() - begin
    return BenchmarkReport(
        result,
        (
            f"largest difference of {len(gaps)} numbers, which both give: {max(gaps):.1e}; of the ends of {len(ends)} intervals, from other resamples: {max(ends):.2f} of their width",
            f"the customary script (default reader, a loop over groups) takes {customary:.1f} s in a single run: ratio {result.numerator / customary:.3f}",
        ),
    )


def analyze(log: Path) -> Analysis:
    """What is timed.

    Args:
        log: of JSON lines.

    Returns:
        The analysis.
    """
    return analyze_logs(open_logs([str(log)], "auto", {}, None, False), OPTIONS)


def _scan(log: Path) -> None:
    columns = ", ".join(
        f"sum({name})" if kind in ("DOUBLE", "BIGINT") else f"count({name})"
        for name, kind in COLUMNS.items()
    )
    with duckdb.connect() as connection:
        source = connection.read_json(str(log), columns=COLUMNS, format="newline_delimited")
        source.aggregate(columns).fetchall()


def _peak_memory(log: Path) -> int:
    """Largest resident size of a process that analyzes the log, in bytes."""
    program = (
        "import pathlib, sys; from experiments.benchmarks.rollout_logs import analyze; "
        "analyze(pathlib.Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, str(log)], check=True, stderr=subprocess.DEVNULL)
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss

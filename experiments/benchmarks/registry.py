"""The benchmarks by name; a benchmark's module is imported only when it runs."""

import importlib
from collections.abc import Callable
from typing import NamedTuple, cast

from experiments.benchmarks.pairing import BenchmarkReport
from theory.errors import InvalidInput


class Benchmark(NamedTuple):
    """One benchmark.

    Attributes:
        largest_ratio: the goal: time(ours) / time(reference) is at most this.
        description: ours against which reference, in one line.
        target: "module:function", the function being run(quick) -> BenchmarkReport.
    """

    largest_ratio: float
    description: str
    target: str

    @property
    def goal(self) -> str:
        """The goal in words."""
        return f"ratio <= {self.largest_ratio:g}"

    def run(self, quick: bool) -> BenchmarkReport:
        """Import and run.

        Args:
            quick: with sizes that keep the whole run under a minute.

        Returns:
            The report.

        Raises:
            InvalidInput: a package that the reference needs is not installed.
        """
        module, function = self.target.split(":")
        try:
            run = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as missing:
            raise InvalidInput(
                f"package {missing.name}: this benchmark needs it, pip install 'rolloutlab[dev]'"
            ) from missing
        return cast(Callable[[bool], BenchmarkReport], run)(quick)


BENCHMARKS: dict[str, Benchmark] = {
    "exact_markov": Benchmark(
        largest_ratio=1.2,
        description="log Z and all per-position marginals of a Markov model (V = 1024, T = 1024) against one "
        "forward and one backward scan of bare matrix-vector products",
        target="experiments.benchmarks.exact_markov:run",
    ),
    "systematic_vs_blackjax": Benchmark(
        largest_ratio=0.7,
        description="systematic resampling of 64 populations of 4096 particles against blackjax under jit and vmap",
        target="experiments.benchmarks.resampling:run_systematic",
    ),
    "multinomial_vs_blackjax": Benchmark(
        largest_ratio=1.1,
        description="multinomial resampling of 64 populations of 4096 particles against blackjax under jit and vmap",
        target="experiments.benchmarks.resampling:run_multinomial",
    ),
    "smc_vs_particles": Benchmark(
        largest_ratio=0.2,
        description="a bootstrap filter of a 32-state hidden Markov model (N = 100,000, T = 200) against the particles package",
        target="experiments.benchmarks.particle_filter:run",
    ),
    "decode_vs_transformers": Benchmark(
        largest_ratio=0.08,
        description="128 tokens sampled in 64 rows from a GPT-2 of 0.8 million random parameters against transformers on torch's CPU",
        target="experiments.benchmarks.decoding:run_small",
    ),
    "decode_vs_transformers_50m": Benchmark(
        largest_ratio=0.35,
        description="128 tokens sampled in 64 rows from a GPT-2 of 42 million random parameters, 32,000 tokens, against transformers",
        target="experiments.benchmarks.decoding:run_large",
    ),
    "shared_prefill": Benchmark(
        largest_ratio=0.15,
        description="a prompt of 512 tokens read once for 64 rollouts against read by every row",
        target="experiments.benchmarks.shared_prefill:run",
    ),
    "smc_overhead": Benchmark(
        largest_ratio=1.15,
        description="SMC for p^4 with adaptive resampling (N = 512, T = 128) against plain ancestral sampling of 512 rows "
        "from the same cached transformer",
        target="experiments.benchmarks.population_overhead:run",
    ),
    "mcmc_overhead": Benchmark(
        largest_ratio=1.1,
        description="suffix moves of 256 chains that do not wait for each other against plain ancestral sampling, per "
        "executed row-step of the same cached transformer",
        target="experiments.benchmarks.chain_overhead:run",
    ),
    "logs_vs_duckdb_scan": Benchmark(
        largest_ratio=4.0,
        description="all statistics of a rollout log of 10^7 JSON lines against DuckDB only reading the same fields",
        target="experiments.benchmarks.rollout_logs:run_scan",
    ),
    "logs_vs_pandas": Benchmark(
        largest_ratio=0.5,
        description="all statistics of a rollout log of 10^6 JSON lines against a pandas script with pyarrow's reader and no loops",
        target="experiments.benchmarks.rollout_logs:run_pandas",
    ),
    "allocation_vs_heap": Benchmark(
        largest_ratio=0.02,
        description="HORA's allocation of 10^7 rollouts to 10^6 prompts with small counts against a heap in Python",
        target="experiments.benchmarks.allocation:run_few",
    ),
    "allocation_distinct_priors": Benchmark(
        largest_ratio=0.2,
        description="the same where every prompt has a Beta prior of its own",
        target="experiments.benchmarks.allocation:run_distinct",
    ),
    "sequential_dp": Benchmark(
        largest_ratio=0.5,
        description="operating characteristics of 50 abandonment thresholds at groups of 128 in one call, against NumPy on lattice diagonals",
        target="experiments.benchmarks.sequential_rules:run",
    ),
}

"""A bootstrap filter of a 32-state hidden Markov model, against the particles package.

Both keep every particle, resample systematically where the effective sample size is below N / 2, and estimate the evidence of the same
symbols. The reference is NumPy with its inner loop in Numba, written for this model without a loop over particles (`particles_program`), in an
environment of its own. Both are timed after compilation, and have to agree with the forward recursion.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from experiments.benchmarks import particles_program
from experiments.benchmarks.pairing import BenchmarkReport, compare_timers, timer
from experiments.benchmarks.peers import peer_python, running_peer
from theory.resampling import ess_adaptive, systematic
from theory.smc.hidden_markov import HiddenMarkovModel, bootstrap_filter, forward_log_evidence

REQUIREMENTS = ("particles==0.4", "numpy<2")
NUM_STATES, NUM_SYMBOLS = 32, 16


def run(quick: bool) -> BenchmarkReport:
    """Time ours against particles and compare their evidence with the truth.

    Args:
        quick: N = 10,000 and T = 50 instead of 100,000 and 200.

    Returns:
        The report.
    """
    num_particles, num_steps = (10_000, 50) if quick else (100_000, 200)
    model, symbols = _problem(num_steps)
    resampler = ess_adaptive(systematic, 0.5)

    @jax.jit
    def filtered(key: jax.Array) -> jax.Array:
        seen = jnp.asarray(symbols)
        ids = jnp.arange(1)
        return bootstrap_filter(key, model, seen, num_particles, resampler, ids)[1].log_Z[-1, 0]

    ours: list[float] = []
    theirs: list[float] = []

    def call() -> None:
        ours.append(float(filtered(jax.random.key(len(ours)))))

    problem = {name: value.tolist() for name, value in model._asdict().items()}
    problem |= {"symbols": symbols.tolist(), "num_particles": num_particles}
    python = peer_python("particles", REQUIREMENTS)
    with running_peer(python, Path(particles_program.__file__), problem) as ask:

        def timed(calls: int) -> float:
            answer = ask(calls)
            theirs.extend(answer["log_evidence"])
            return answer["seconds"]

        sizes = {"states": NUM_STATES, "particles": num_particles, "steps": num_steps}
        result = compare_timers("smc_vs_particles", timer(call), timed, sizes)
    truth = forward_log_evidence(model, symbols)
    notes = (
        f"log evidence by the forward recursion: {truth:.4f}",
        agreement("ours", np.array(ours), truth),
        agreement("particles", np.array(theirs), truth),
    )
    return BenchmarkReport(result, notes)


def _problem(num_steps: int) -> tuple[HiddenMarkovModel, np.ndarray]:
    rng = np.random.default_rng(0)
    model = HiddenMarkovModel(
        np.full(NUM_STATES, 1 / NUM_STATES),
        rng.dirichlet(np.full(NUM_STATES, 0.3), NUM_STATES),
        rng.dirichlet(np.full(NUM_SYMBOLS, 0.5), NUM_STATES),
    )
    symbols = np.empty(num_steps, np.int32)
    state = rng.choice(NUM_STATES, p=model.initial)
    for t in range(num_steps):
        symbols[t] = rng.choice(NUM_SYMBOLS, p=model.emission[state])
        state = rng.choice(NUM_STATES, p=model.transition[state])
    return model, symbols


def agreement(name: str, log_evidence: Float64[np.ndarray, " n"], truth: float) -> str:
    """Whether runs agree with the truth: Z_hat / Z has mean 1.

    Args:
        name: whose runs.
        log_evidence: [n] log Z_hat of independent runs.
        truth: log Z.

    Returns:
        A line with the z-score of the mean over runs.
    """
    ratios = np.exp(log_evidence - truth)
    z = (ratios.mean() - 1) / (ratios.std(ddof=1) / np.sqrt(ratios.size))
    return (
        f"{name}: {ratios.size} runs, mean log evidence {log_evidence.mean():.4f} (standard deviation "
        f"{log_evidence.std(ddof=1):.4f}); mean of Z_hat / Z has z = {z:.2f}"
    )

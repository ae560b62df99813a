"""Operating characteristics of 50 abandonment thresholds at groups of 128, against NumPy on the diagonals of the lattice.

Both start from a law of success rates and the thresholds, and return the same eight characteristics of every threshold. The reference
carries the probability of each place forward, one diagonal after the other, all thresholds at once, for any table of actions; its tables of moments come from
SciPy's log Beta function. Ours is one compiled call. Float64 on both sides.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import betaln

from experiments.benchmarks.pairing import BenchmarkReport, compare
from theory.allocation.priors import BetaMixture, beta, mixture
from theory.exact.allocation.claims import threshold_rules
from theory.exact.allocation.lattice import Characteristics, characteristics

NUM_THRESHOLDS = 50
# The U-shaped population of docs/allocation.md; the rules believe in the flat prior.
WEIGHT, A, B, AT_ZERO, AT_ONE = 0.36, 2.5, 2.5, 0.32, 0.32


def run(quick: bool) -> BenchmarkReport:
    """Time ours against NumPy.

    Args:
        quick: groups of 32 instead of 128.

    Returns:
        The report, with the largest difference of any characteristic.
    """
    group_size = 32 if quick else 128
    thresholds = np.linspace(0.02, 0.9, NUM_THRESHOLDS)
    ours = _ours(group_size, thresholds)

    def reference() -> dict[str, np.ndarray]:
        return by_diagonals(group_size, thresholds)

    expected, found = reference(), ours()
    gap = max(
        float(np.abs(np.asarray(getattr(found, name)) - value).max())
        for name, value in expected.items()
    )
    sizes = {"n": group_size, "thresholds": NUM_THRESHOLDS}
    result = compare("sequential_dp", ours, reference, sizes)
    return BenchmarkReport(result, (f"largest difference of any characteristic {gap:.1e}",), {})


def _ours(group_size: int, thresholds: np.ndarray) -> Callable[[], Characteristics]:
    def call(values: jax.Array, believed: BetaMixture, population: BetaMixture) -> Characteristics:
        rules = threshold_rules(believed, group_size, values)
        return characteristics(rules, population, group_size)

    with jax.enable_x64(True):
        population = mixture(((WEIGHT, A, B),), ((AT_ZERO, 0.0), (AT_ONE, 1.0)))
        arguments = (jnp.asarray(thresholds), beta(1.0, 1.0), population)
        compiled = jax.jit(call).lower(*arguments).compile()

    def timed() -> Characteristics:
        with jax.enable_x64(True):
            return jax.block_until_ready(compiled(*arguments))

    return timed


def by_diagonals(group_size: int, thresholds: np.ndarray) -> dict[str, np.ndarray]:
    """The reference: NumPy, all thresholds at once on each diagonal.

    Args:
        group_size: n.
        thresholds: [K].

    Returns:
        The fields of `Characteristics` by name.
    """
    n, num_rules = group_size, len(thresholds)
    s, f = np.meshgrid(np.arange(n + 2), np.arange(n + 2), indexing="ij")
    moments = WEIGHT * np.exp(betaln(A + s, B + f) - betaln(A, B))
    moments[0] += AT_ZERO
    moments[:, 0] += AT_ONE
    rates = moments[1:, :-1] / moments[:-1, :-1]
    # P(effective) is 1 but on the two edges: what the rule believes of it, and what is so.
    believed, actual = np.ones((2, n + 1, n + 1))
    believed[0] = believed[:, 0] = 1 - (np.arange(n + 1) + 1) / (n + 1)
    believed[0, 0] = 1 - 2 / (n + 1)
    actual[:, 0] = 1 - moments[n, 0] / moments[: n + 1, 0]
    actual[0] = 1 - moments[0, n] / moments[0, : n + 1]
    actual[0, 0] = full = 1 - moments[n, 0] - moments[0, n]

    trains_at, abandons_at = np.zeros((2, num_rules, n + 1))
    effective, abandoned_effective = np.zeros((2, num_rules))
    mass = np.ones((num_rules, 1))
    for t in range(n + 1):
        diagonal = np.arange(t + 1), t - np.arange(t + 1)
        mixed = (diagonal[0] > 0) & (diagonal[1] > 0)
        going = mass * (~mixed & (believed[diagonal] > thresholds[:, None]) & (t < n))
        stopped = mass - going
        trained = stopped * mixed
        lost = stopped - trained
        trains_at[:, t] = trained.sum(axis=1)
        abandons_at[:, t] = lost.sum(axis=1)
        effective += trained @ actual[diagonal]
        abandoned_effective += lost @ actual[diagonal]
        successes = going * rates[diagonal]
        mass = np.zeros((num_rules, t + 2))
        mass[:, 1:] = successes
        mass[:, :-1] += going - successes
    trained = trains_at.sum(axis=1)
    return {
        "rollouts": n * trained + abandons_at @ np.arange(n + 1),
        "effective": effective,
        "ineffective": trained - effective,
        "abandoned": abandons_at.sum(axis=1),
        "abandoned_effective": abandoned_effective,
        "full_effective": np.full(num_rules, full),
        "trains_at": trains_at,
        "abandons_at": abandons_at,
    }

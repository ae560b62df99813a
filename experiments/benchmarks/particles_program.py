"""The bootstrap filter in the particles package. Runs in the peer's environment, not in ours; see `peers` for how it is talked to.

States move by inversion of their row's cumulative law, for all particles in one search: row i's levels lie in i..i+1, so that
the levels of all rows ascend.
"""

# pyright: basic, reportMissingImports=false

import json
import sys
import time
from typing import Any


def main() -> None:
    """Answer until the input ends."""
    import numpy as np
    import particles

    problem = json.loads(sys.stdin.readline())
    initial, transition = np.array(problem["initial"]), np.array(problem["transition"])
    with np.errstate(divide="ignore"):
        log_emission = np.log(np.array(problem["emission"]).T.copy())
    symbols, num_particles = problem["symbols"], problem["num_particles"]
    num_states, rng = initial.size, np.random.default_rng(0)
    first = np.cumsum(initial) / initial.sum()
    levels = np.cumsum(transition, axis=1)
    levels = (levels / levels[:, -1:] + np.arange(num_states)[:, None]).ravel()

    class Bootstrap(particles.FeynmanKac):
        """States one by one, as integers."""

        def M0(self, N: int) -> Any:
            """X_0."""
            return np.searchsorted(first, rng.random(N), side="right")

        def M(self, t: int, xp: Any) -> Any:
            """X_t given X_{t-1}."""
            return np.searchsorted(levels, xp + rng.random(xp.size), side="right") - num_states * xp

        def logG(self, t: int, xp: Any, x: Any) -> Any:
            """Log probability of the symbol seen."""
            return log_emission[symbols[t]][x]

    def run() -> float:
        fk = Bootstrap(T=len(symbols))
        filtered = particles.SMC(fk=fk, N=num_particles, resampling="systematic", ESSrmin=0.5)
        filtered.run()
        return float(filtered.logLt)

    for line in sys.stdin:
        start = time.perf_counter()
        log_evidence = [run() for _ in range(int(line))]
        seconds = (time.perf_counter() - start) / int(line)
        print(json.dumps({"seconds": seconds, "log_evidence": log_evidence}), flush=True)


if __name__ == "__main__":
    main()

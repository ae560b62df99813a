"""The register of planted bugs: what each is, who had it, what exactly it does to a toy, and which test catches it.

A bug that is planted in a module of this package belongs here: add a `Defect` to the family in `families` (its measure to `damage`), then run
`python -m tests.planted_bugs.document`, which writes what is generated from this register. `tests/planted_bugs/test_catalogue.py` says
what is missing.
"""

from tests.planted_bugs.defect import Defect
from tests.planted_bugs.families import (
    allocation,
    coupled,
    decoding,
    estimators,
    hierarchical,
    importance,
    log_readers,
    lookahead,
    mcmc,
    on_transformers,
    particle_gibbs,
    resampling,
    rollout_logs,
    sizing,
    smc,
    stopping,
    twists,
)

FAMILIES: dict[str, tuple[Defect, ...]] = {
    "Markov chains": (*mcmc.DEFECTS, *coupled.DEFECTS, *particle_gibbs.DEFECTS),
    "Populations": (*smc.DEFECTS, *lookahead.DEFECTS, *twists.DEFECTS),
    "Resampling": resampling.DEFECTS,
    "Importance weights and rejection": importance.DEFECTS,
    "Intervals and moments": (
        *estimators.DEFECTS,
        *hierarchical.DEFECTS,
        *on_transformers.DEFECTS,
    ),
    "Token rules and distinct draws": decoding.DEFECTS,
    "Logs of rollouts": (*rollout_logs.DEFECTS, *log_readers.DEFECTS),
    "Rollout allocation": (*allocation.DEFECTS, *stopping.DEFECTS, *sizing.DEFECTS),
}
"""In the order in which they are shown."""

CATALOGUE: tuple[Defect, ...] = tuple(defect for family in FAMILIES.values() for defect in family)

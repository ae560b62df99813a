"""The hierarchical model: what the catalogue lists."""

from tests.planted_bugs import hierarchical as planted
from tests.planted_bugs.damage.hierarchical import of_law
from tests.planted_bugs.defect import TOTAL_VARIATION, Defect
from theory.estimators.hierarchical.posterior import log_likelihood

HOME = "tests/theory/estimators/hierarchical/test_calibration.py"
TOY = "4 samples of a task, atoms .3 and .2, Beta(1, 2)"

DEFECTS = (
    Defect(
        "likelihood without the atoms",
        planted.ignores_the_atoms,
        log_likelihood,
        of_law,
        0.3,
        TOTAL_VARIATION,
        TOY,
        f"{HOME}::test_ranks_with_a_wrong_likelihood_are_not",
    ),
    Defect(
        "atoms take all tasks at the edges",
        planted.atoms_take_all_ties,
        log_likelihood,
        of_law,
        0.1,
        TOTAL_VARIATION,
        TOY,
        f"{HOME}::test_ranks_with_a_wrong_likelihood_are_not",
    ),
)

"""Power sampling on transformers: what the catalogue lists."""

from experiments.enumerated_truth import power_bounds
from experiments.transformer_tables import diversity
from tests.planted_bugs import on_transformers as planted
from tests.planted_bugs.damage import on_transformers as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, Defect

DEFECTS = (
    Defect(
        "base mass missing for power mass",
        planted.base_share_missing,
        power_bounds,
        exact.of_bounds,
        0.648889,
        SHARE,
        "two tokens, alpha 4, outside the bounds",
        "tests/experiments/test_enumerated_truth.py::test_what_is_missing_of_the_base_law_is_not_what_is_missing_of_the_power_law",
    ),
    Defect(
        "a replicate paired with itself",
        planted.replicates_paired_with_themselves,
        diversity,
        exact.of_diversity,
        0.310273,
        RELATIVE_BIAS,
        "two replicates of two weighted rows",
        "tests/experiments/test_transformer_tables.py::test_diversity_is_unbiased",
    ),
)

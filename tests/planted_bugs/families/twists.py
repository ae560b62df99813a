"""Losses of twists: what the catalogue lists."""

from tests.planted_bugs import twists as planted
from tests.planted_bugs.damage import twists as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, Defect
from theory.smc.twist_losses import contrastive_loss

TEST = "tests/theory/smc/test_twist_losses.py::test_the_contrastive_gradient_is_that_of_the_divergences"

DEFECTS = (
    Defect(
        "negatives without their twist",
        planted.negatives_without_their_twist,
        contrastive_loss,
        exact.of_gradient,
        1.61362,
        RELATIVE_BIAS,
        "E, alpha 2, gradient at a wrong twist",
        TEST,
    ),
    Defect(
        "loss differentiated through its weights",
        planted.differentiated_through_the_weights,
        contrastive_loss,
        exact.of_gradient,
        1.52355,
        RELATIVE_BIAS,
        "E, alpha 2, gradient at a wrong twist",
        TEST,
    ),
)

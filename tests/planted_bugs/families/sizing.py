"""The price of groups of any size: what the catalogue lists."""

from tests.planted_bugs import sizing as planted
from tests.planted_bugs.damage import sizing as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, Defect

_HOME = "tests/theory/allocation/test_sizing_price.py"

DEFECTS = tuple(
    Defect(
        kind,
        twin,
        exact.foresee,
        exact.of_pool,
        damage,
        RELATIVE_BIAS,
        exact.POOL,
        f"{_HOME}::test_planted_prices_are_rejected",
    )
    for kind, twin, damage in (
        ("losing prompts supply the batch", planted.losing_prompts_supply_the_batch, 0.00315524),
        ("every gain counted as a group", planted.every_gain_counted_as_a_group, 0.00827446),
        ("sized pool priced like a stream", planted.sized_pool_priced_like_a_stream, 0.0591627),
        (
            "sized at the shared price in vain",
            planted.losing_prompts_sized_at_the_shared_price,
            0.0326925,
        ),
    )
)

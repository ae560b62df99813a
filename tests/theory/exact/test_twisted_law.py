"""The law that a twist induces, at the two twists where it is known, and between them."""

import numpy as np
import pytest

from tests.planted_bugs.damage import twists
from tests.planted_bugs.damage.twists import ALPHA, LAYERS, POWER, WRONG
from theory.errors import InvalidInput
from theory.exact import temperature_law, unroll
from theory.exact.laws import token_log_normalisers
from theory.exact.smc_finite_variance import twisted_relative_variance
from theory.exact.twisted_law import induced_law


def test_log_zeta_induces_the_power_law_and_one_the_temperature_law() -> None:
    of_zeta = induced_law(LAYERS, ALPHA, POWER.log_lookahead.__getitem__)
    of_one = induced_law(LAYERS, ALPHA, lambda t: np.zeros(LAYERS[t].contexts.size))
    temperature, log_z = temperature_law(LAYERS, ALPHA), token_log_normalisers(LAYERS, ALPHA)
    for depth in range(len(LAYERS)):
        for found, law, backup, expected in (
            (of_zeta, POWER.law, of_zeta.log_backup, POWER.log_lookahead.__getitem__),
            (of_one, temperature, of_one.log_backup, log_z),
        ):
            rows = found.law.log_conditional(depth)
            np.testing.assert_allclose(rows, law.log_conditional(depth), atol=1e-12)
            np.testing.assert_allclose(backup(depth), expected(depth), atol=1e-12)
    assert twisted_relative_variance(POWER, *of_zeta, 3) < 1e-25


def test_another_twist_gives_what_plain_sums_give() -> None:
    values = [np.asarray(row, np.float64) for row in WRONG.log_lookahead]
    found = induced_law(LAYERS, ALPHA, lambda t: values[t][: LAYERS[t].contexts.size])
    law, log_backup = twists.induced_law(WRONG)
    for depth in range(len(LAYERS)):
        rows = found.law.log_conditional(depth)
        np.testing.assert_allclose(rows, law.log_conditional(depth), atol=1e-12)
        np.testing.assert_allclose(found.log_backup(depth), log_backup(depth), atol=1e-12)


def test_alpha_must_be_an_exponent() -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        induced_law(unroll(twists.TABLE), 0.0, POWER.log_lookahead.__getitem__)

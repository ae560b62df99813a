"""Wrong particle Gibbs, as exact matrices and in the jitted kernel.

Unconditional resampling in the place of the conditional needs no code here: damage .070588 with multinomial, .088097 with systematic.
Damage is the total variation between the law that is left invariant and the power law on toy E at alpha 2, two particles, resampling after
every token; asserted in tests/theory/mcmc/test_particle_gibbs.py.
"""

import jax.numpy as jnp
import numpy as np

from theory.exact.laws import temperature_law
from theory.exact.layers import Layers
from theory.exact.offspring import Offspring, OffspringLaw, stratified_offspring
from theory.exact.smc_population import plain_filter
from theory.mcmc import References


def gain_of_the_whole_row(gains: np.ndarray, reference: int, begin: int, end: int) -> float:
    """In the place of `reference_gain`: wherever the reference has a new token it is compared with the weight of its whole row.

    As in its_hub, issue 54. Damage .183636 with multinomial, .036186 with systematic resampling.
    """
    has_new = gains[reference, begin:end].any()
    return float(gains[reference].sum()) if has_new else 0.0


def weighing_the_whole_row(references: References, alpha: float) -> References:
    """The same in the jitted kernel: each token of the reference is recorded with what the whole row contributes."""
    rows = references.generation.trajectories
    inside = jnp.arange(rows.tokens.shape[1])[None, :] < rows.lengths[:, None]
    gains = jnp.where(inside, alpha * rows.log_p - rows.log_q, 0.0)
    whole = jnp.broadcast_to(gains.sum(axis=1, keepdims=True), gains.shape)
    again = rows._replace(log_q=jnp.where(inside, alpha * rows.log_p - whole, 0.0))
    return references._replace(generation=references.generation._replace(trajectories=again))


def forgotten_reference(
    layers: Layers,
    alpha: float,
    resample_after: tuple[int, ...],
    offspring: OffspringLaw,
) -> np.ndarray:
    """The matrix of a sweep that begins without its reference: every step is an SMC draw, from wherever. Damage .296184, multinomial."""
    proposal = temperature_law(layers, alpha)
    law = plain_filter(alpha, proposal, 2, resample_after, offspring).final_draw
    return np.tile(law, (law.size, 1))


def strata_begin_with_the_reference(log_weights: np.ndarray) -> list[Offspring]:
    """Stratified resampling given that slot 0 keeps particle 0, the slots rotated and the particles not.

    With two particles it is right. With three the law depends on which particle the strata begin with, which is always the reference:
    damage .001769 on toy E with at most three tokens.
    """
    outcomes = stratified_offspring(log_weights)
    kept: list[Offspring] = []
    for outcome in outcomes:
        for start in range(log_weights.size):
            rotated = outcome.ancestors[start:] + outcome.ancestors[:start]
            if rotated[0] == 0:
                kept.append(outcome._replace(ancestors=rotated))
    total = sum(each.probability for each in kept)
    return [each._replace(probability=each.probability / total) for each in kept]


def frozen_iteration(references: References) -> References:
    """A chain that does not count its sweeps: each draws the numbers of the first.

    Without resampling the free row and the final race are then the same every time, so a reference that stayed once stays, and one that
    lost has become the free row: after any number of sweeps the law is that of one, .141112 from the target on toy E with at most
    three tokens.
    """
    return references._replace(iteration=jnp.ones_like(references.iteration))

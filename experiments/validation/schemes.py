"""Resampling schemes: the whole law of their ancestors, and the expected weight of each particle's offspring.

Every scheme is looked up in `theory.resampling` when its check is made. Conditional schemes are compared with the ordinary scheme, shuffled,
given that slot 0 keeps particle 0 (`theory.exact.conditional_offspring`); so is their expected weight of offspring.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.validation.cases import Build, Case, Check, Jit, Sizes, key_of
from experiments.validation.findings import Found, law_finding, worst_mean_finding
from theory import resampling
from theory.exact import conditional_offspring, offspring
from theory.exact.enumeration import enumerate_sequences
from theory.exact.laws import base_law
from theory.exact.offspring import Offspring, OffspringLaw
from theory.keys import Role, role_key, row_keys
from theory.protocols import Resampler

NUM_PARTICLES = 4
ESS_THRESHOLD = 0.8


class Scheme(NamedTuple):
    """A scheme and what is known of it.

    Attributes:
        resampler: looks it up.
        law: its exact law, or None where that is not enumerated (chopthin, whose weights differ).
        is_conditional: whether slot 0 keeps particle 0: offspring then weigh what its law says, not what their particle weighed.
    """

    resampler: Callable[[], Resampler]
    law: OffspringLaw | None
    is_conditional: bool = False


def weights_of(case: Case) -> np.ndarray:
    """Weights that the case suggests: probabilities of its most likely sequences, with a dead particle and a light one among them.

    Without the light one chopthin would have nothing to thin, and its offspring would weigh what their particle weighed at every draw.

    Args:
        case: the model.

    Returns:
        [NUM_PARTICLES] log weights, the second -inf, the first not the largest, the last a sixth of the largest.
    """
    log_probs = np.sort(enumerate_sequences((base_law(case.layers),)).log_probs[0])[::-1]
    return np.array([log_probs[1], -np.inf, log_probs[0], log_probs[0] - np.log(6.0)])


def scheme_check(name: str, scheme: Scheme) -> Build:
    """The checks of a scheme.

    Args:
        name: of the scheme.
        scheme: what is known of it.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        resampler = scheme.resampler()
        compiled = jit(lambda keys, log_weights: resampler(keys, log_weights))

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            log_weights = weights_of(case)
            rows = jnp.arange(sizes.draws, dtype=jnp.int32)
            keys = row_keys(role_key(key_of(seed, name, case), Role.RESAMPLE), rows)
            tiled = jnp.broadcast_to(
                jnp.asarray(log_weights, jnp.float32), (sizes.draws, NUM_PARTICLES)
            )
            ancestors, carried = (np.asarray(each) for each in compiled(keys, tiled))
            weights = np.exp(np.asarray(carried, np.float64))
            children = np.zeros((sizes.draws, NUM_PARTICLES))
            inside = np.clip(ancestors, 0, NUM_PARTICLES - 1)
            np.add.at(children, (np.arange(sizes.draws)[:, None], inside), weights)
            own = np.exp(log_weights)
            limit = sizes.mean_limit * own.sum() / NUM_PARTICLES
            listed = [] if scheme.law is None else scheme.law(log_weights)
            expected = _expected_weights(listed) if scheme.is_conditional else own
            findings = [
                worst_mean_finding("expected weight of offspring", children, expected, limit)
            ]
            if listed:
                outcomes: dict[tuple[int, ...], float] = {}
                for outcome in listed:
                    key = outcome.ancestors
                    outcomes[key] = outcomes.get(key, 0.0) + outcome.probability
                findings.append(
                    law_finding(
                        "law of the ancestors",
                        _cells(ancestors, list(outcomes)),
                        np.array(list(outcomes.values())),
                        sizes.law_limit,
                    )
                )
            return Found(findings)

        return check

    return build


def _expected_weights(outcomes: list[Offspring]) -> np.ndarray:
    """[NUM_PARTICLES] expected weight of each particle's offspring."""
    expected = np.zeros(NUM_PARTICLES)
    for outcome in outcomes:
        np.add.at(
            expected, np.array(outcome.ancestors), outcome.probability * np.exp(outcome.log_weights)
        )
    return expected


def _cells(rows: np.ndarray, outcomes: list[tuple[int, ...]]) -> np.ndarray:
    places = {outcome: place for place, outcome in enumerate(outcomes)}
    different, back = np.unique(rows, axis=0, return_inverse=True)
    found = [places.get(tuple(row), len(places)) for row in different.tolist()]
    return np.array(found)[back.ravel()]


def _named(name: str) -> Callable[[], Resampler]:
    return lambda: getattr(resampling, name)


SCHEMES: dict[str, Scheme] = {
    "systematic": Scheme(_named("systematic"), offspring.systematic_offspring),
    "stratified": Scheme(_named("stratified"), offspring.stratified_offspring),
    "multinomial": Scheme(_named("multinomial"), offspring.multinomial_offspring),
    "residual": Scheme(_named("residual"), offspring.residual_offspring),
    "ssp": Scheme(_named("ssp"), offspring.ssp_offspring),
    "killing": Scheme(_named("killing"), offspring.killing_offspring),
    "chopthin": Scheme(_named("chopthin"), None),
    "ess-adaptive": Scheme(
        lambda: resampling.ess_adaptive(resampling.multinomial, ESS_THRESHOLD),
        offspring.when_ess_below(ESS_THRESHOLD, offspring.multinomial_offspring),
    ),
    "conditional-systematic": Scheme(
        _named("conditional_systematic"),
        conditional_offspring.conditional_systematic_offspring,
        True,
    ),
    "conditional-stratified": Scheme(
        _named("conditional_stratified"),
        conditional_offspring.conditional_stratified_offspring,
        True,
    ),
    "conditional-multinomial": Scheme(
        _named("conditional_multinomial"),
        conditional_offspring.conditional_multinomial_offspring,
        True,
    ),
    "conditional-killing": Scheme(
        _named("conditional_killing"), conditional_offspring.conditional_killing_offspring, True
    ),
}

"""Importance sampling and rejection: exact moments at a finite number of draws, exact draws, and how often a proposal is accepted.

The functions are looked up in `theory.importance` and `theory.rejection` when a check is made. The self-normalised estimate is biased by design: its
mean and variance are compared with its own exact ones at NUM_DRAWS draws, and its bias for the target is reported.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.validation.cases import (
    ALPHA,
    Build,
    Case,
    Check,
    Jit,
    Sizes,
    cells_of,
    key_of,
    law_probs,
)
from experiments.validation.findings import (
    Finding,
    Found,
    exact_finding,
    law_finding,
    mean_finding,
)
from theory import generation, importance, rejection, smc
from theory.exact.divergences import log_max_ratio
from theory.exact.importance_moments import (
    evidence_moments,
    self_normalised_moments,
    target_mean,
    unnormalised_moments,
    weighted_draw,
)
from theory.exact.laws import power_law, temperature_law
from theory.keys import Role, role_key, row_keys
from theory.log_weights import log_mean_weight

NUM_DRAWS = 8
MAX_ROUNDS = 100_000


class Estimates(NamedTuple):
    """What R replicates of NUM_DRAWS rows each say; the function is the length."""

    log_Z_hat: jax.Array
    plain: jax.Array
    self_normalised: jax.Array


def importance_check(name: str, proposal_alpha: float) -> Build:
    """The checks of importance sampling from token temperature 1/proposal_alpha.

    Args:
        name: of the estimator.
        proposal_alpha: exponent of the proposal; 1 is the base model.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        rules = smc.temperature_proposal(proposal_alpha)
        weigh = importance.trajectory_log_weights
        plain, self_normalised = importance.plain_estimate, importance.self_normalised_estimate

        def run(key: jax.Array, model: Any, rows: jax.Array, log_Z: jax.Array) -> Estimates:
            drawn = draw(key, model, rules, rows)
            log_weights = weigh(drawn, ALPHA).reshape(-1, NUM_DRAWS)
            values = drawn.lengths.astype(jnp.float32).reshape(-1, NUM_DRAWS)
            return Estimates(
                log_mean_weight(log_weights),
                plain(log_weights, values, log_Z),
                self_normalised(log_weights, values),
            )

        compiled = jit(run)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            power = power_law(case.layers, ALPHA)
            proposal = temperature_law(case.layers, proposal_alpha)
            rows = jnp.arange(sizes.populations * NUM_DRAWS, dtype=jnp.int32)
            log_Z = jnp.asarray(power.log_Z, jnp.float32)
            found = compiled(key_of(seed, name, case), case.model, rows, log_Z)
            ratios = np.exp(np.asarray(found.log_Z_hat, np.float64) - power.log_Z)
            one = weighted_draw(power.law, proposal, len)
            evidence = evidence_moments(power, proposal, NUM_DRAWS)
            dead = int(np.isneginf(np.asarray(found.log_Z_hat)).sum())
            moments = [
                ("Z_hat / Z", ratios, 1.0, evidence.relative_variance),
                ("plain mean length", found.plain, *unnormalised_moments(one, NUM_DRAWS)),
                (
                    "self-normalised mean length",
                    found.self_normalised,
                    *self_normalised_moments(one, NUM_DRAWS),
                ),
            ]
            findings: list[Finding] = []
            for what, values, mean, variance in moments:
                findings += _moment_findings(what, np.asarray(values), mean, variance, sizes)
            if dead:
                note = f"{dead} replicates have no weight (Z_hat = 0)"
                findings = [each._replace(note=note) for each in findings]
            bias = self_normalised_moments(one, NUM_DRAWS).mean - target_mean(one)
            return Found(findings, [(f"bias of the self-normalised mean, n = {NUM_DRAWS}", bias)])

        return check

    return build


def draw(key: jax.Array, model: Any, rules: Any, rows: jax.Array) -> generation.Trajectories:
    """Whole rows from a pipeline, through `theory.generation`.

    Args:
        key: of the run.
        model: of the tokens.
        rules: the pipeline.
        rows: [B] global ids.

    Returns:
        B rows.
    """
    empty = jnp.zeros((rows.shape[0], 0), jnp.int32)
    fresh = generation.start(model, empty, jnp.zeros(rows.shape, jnp.int32))
    limits = jnp.full(rows.shape, model.horizon, jnp.int32)
    keys = row_keys(role_key(key, Role.TOKEN), rows)
    return generation.generate(keys, model, rules, ALPHA, fresh, limits).trajectories


def _moment_findings(
    what: str, values: np.ndarray, mean: float, variance: float, sizes: Sizes
) -> list[Finding]:
    """Mean and variance of an estimator against the exact ones; one that does not vary has no variance to look at."""
    label = f"{what}, n = {NUM_DRAWS}"
    first = mean_finding(label, values, mean, sizes.mean_limit * abs(mean))
    if variance <= 1e-9 * mean**2:
        return [first]
    squares = (np.asarray(values, np.float64) - mean) ** 2
    second = mean_finding(f"Var of {label}", squares, variance, sizes.variance_limit * variance)
    return [first, second]


def rejection_check(name: str) -> Build:
    """Rejection from the base model with the smallest bound: draws follow the target, and Z / M of the proposals are accepted.

    Args:
        name: of the sampler.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        sampler = rejection.rejection_sample

        def run(key: jax.Array, model: Any, rows: jax.Array, log_bound: jax.Array) -> Any:
            empty = jnp.zeros((rows.shape[0], 0), jnp.int32)
            lengths = jnp.zeros(rows.shape, jnp.int32)
            return sampler(key, model, (), ALPHA, log_bound, empty, lengths, rows, MAX_ROUNDS)

        compiled = jit(run)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            power = power_law(case.layers, ALPHA)
            # max p^alpha / p, for the law of the target over the base law times Z.
            log_bound = log_max_ratio(power.law, temperature_law(case.layers, 1.0)) + power.log_Z
            rate = math.exp(rejection.log_acceptance_rate(power.log_Z, log_bound))
            rows = jnp.arange(sizes.draws, dtype=jnp.int32)
            state = compiled(
                key_of(seed, name, case), case.model, rows, jnp.asarray(log_bound, jnp.float32)
            )
            above = int(np.asarray(state.num_above_bound).sum())
            now = state.generation.trajectories
            cells = cells_of(case, now.tokens, now.lengths)
            proposals = np.asarray(state.num_proposals, np.float64)
            return Found(
                [
                    exact_finding("proposals above the bound", float(above), 0.0, 0.0),
                    law_finding("law", cells, law_probs(case, power.law), sizes.law_limit),
                    mean_finding(
                        "proposals for one draw", proposals, 1 / rate, sizes.mean_limit / rate
                    ),
                ]
            )

        return check

    return build

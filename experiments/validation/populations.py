"""Sequential Monte Carlo: Z_hat, its variance at several numbers of particles, weighted means and the law of a drawn row.

Every sampler is looked up in `theory.smc` when its check is made. A row drawn from a finite population is no draw from the target; at two particles its
law is known exactly and is what the draws are compared with, and its distance to the target is reported.
"""

from collections.abc import Callable
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
from experiments.validation.findings import Finding, Found, law_finding, mean_finding
from experiments.validation.markov import starter
from theory import mcmc, resampling, smc
from theory.exact.enumeration import enumerate_sequences
from theory.exact.laws import PowerLaw, power_law
from theory.exact.layers import ENDS
from theory.exact.sequence_space import sequence_space
from theory.exact.smc_population import FiniteRun
from theory.smc.exact_twist import ExactTwist

FEW = 2
"""Particles at which the whole law of a run is enumerated."""

CONDITIONAL = 4
"""Particles of a conditional population."""

# Of log Z_hat, a token: half a unit in the last place of a float32 log weight below 16 is 4 epsilon, and its mean over particles errs as much.
_LOG_ROUNDING = 8 * float(np.finfo(np.float32).eps)


class Outcome(NamedTuple):
    """What M populations say.

    Attributes:
        log_Z_hat: [M].
        mean_length: [M] weighted mean of the length times Z_hat, as a share of Z_hat's scale: sum w len / N.
        tokens: [M, T] one row drawn from each.
        lengths: [M].
    """

    log_Z_hat: jax.Array
    mean_length: jax.Array
    tokens: jax.Array
    lengths: jax.Array


# (key, model, population, twist) -> the population at the end.
Sampler = Callable[[jax.Array, Any, smc.Population, ExactTwist], smc.Population]


class Sequential(NamedTuple):
    """A sampler and what is known of it.

    Attributes:
        sampler: looks it up.
        few: the exact law of a run of FEW particles, or None where it is not enumerated.
        variance: (case, power law, N) -> Var(Z_hat / Z), or None.
        is_exact: whether a drawn row follows the target itself.
    """

    sampler: Callable[[], Sampler]
    few: Callable[[Case], FiniteRun] | None = None
    variance: Callable[[Case, PowerLaw, int], float] | None = None
    is_exact: bool = False


def sequential_check(name: str, spec: Sequential) -> Build:
    """The checks of a sampler.

    Args:
        name: of the kernel.
        spec: what is known of it.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        sampler = spec.sampler()

        def run(
            key: jax.Array, model: Any, twist: ExactTwist, ids: jax.Array, num_particles: int
        ) -> Outcome:
            empty = jnp.zeros((ids.shape[0], 0), jnp.int32)
            population = smc.start_populations(
                model, empty, jnp.zeros(ids.shape, jnp.int32), ids, num_particles
            )
            return summary(key, model, sampler(key, model, population, twist))

        compiled = jit(run, static_argnums=4)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            power = power_law(case.layers, ALPHA)
            key, twist = key_of(seed, name, case), _padded_twist(case, power)
            findings: list[Finding] = []
            distances: list[tuple[str, float]] = []
            sizes_run = (FEW,)
            if spec.variance is not None:
                sizes_run = sizes.particles if spec.few is not None else sizes.particles[:2]
            for num_particles in sizes_run:
                num = sizes.populations if num_particles == FEW else sizes.populations // 4
                ids = jnp.arange(num, dtype=jnp.int32)
                found = compiled(key, case.model, twist, ids, num_particles)
                few = spec.few(case) if spec.few and num_particles == FEW else None
                findings += evidence_findings(found, power, num_particles, sizes)
                variance = None
                if few is not None:
                    variance = few.evidence.relative_variance
                elif spec.variance is not None:
                    variance = spec.variance(case, power, num_particles)
                if variance is not None:
                    tokens = case.table.horizon
                    findings.append(
                        variance_finding(
                            found.log_Z_hat, power, variance, num_particles, sizes, tokens
                        )
                    )
                cells = cells_of(case, found.tokens, found.lengths)
                target = law_probs(case, power.law)
                if spec.is_exact:
                    what = f"law of a drawn row, N = {num_particles}"
                    findings.append(law_finding(what, cells, target, sizes.law_limit))
                elif few is not None:
                    what = f"law of a drawn row, N = {num_particles}"
                    findings.append(law_finding(what, cells, few.final_draw, sizes.law_limit))
                    away = float(np.abs(few.final_draw - target).sum() / 2)
                    distances.append((f"total variation to the target of a row, N = {FEW}", away))
            return Found(findings, distances)

        return check

    return build


def _padded_twist(case: Case, power: PowerLaw) -> ExactTwist:
    """The optimal twist, its arrays of one size for all cases of one shape: every case could have V^t prefixes of length t."""
    twist = smc.exact_twist(power)
    depth, width = twist.log_lookahead.shape
    most = min(case.model.log_probs.shape[0], case.table.vocab_size ** (case.table.horizon - 1))
    room = ((0, case.table.horizon - depth), (0, most - width))
    return ExactTwist(
        jnp.pad(twist.successor, (*room, (0, 0)), constant_values=ENDS),
        jnp.pad(twist.log_lookahead, room),
    )


def summary(key: jax.Array, model: Any, population: smc.Population) -> Outcome:
    """What is read of populations at the end.

    Args:
        key: of the run.
        model: of the tokens.
        population: M of them.

    Returns:
        The outcome.
    """
    row, log_Z_hat = smc.draw_one(key, model, population)
    lengths = population.generation.trajectories.lengths.reshape(population.log_weights.shape)
    mean_length = jnp.mean(jnp.exp(population.log_weights) * lengths.astype(jnp.float32), axis=1)
    return Outcome(log_Z_hat, mean_length, row.trajectories.tokens, row.trajectories.lengths)


def evidence_findings(
    found: Outcome, power: PowerLaw, num_particles: int, sizes: Sizes
) -> list[Finding]:
    """Unbiasedness of Z_hat, and of the unnormalised weighted mean of the length.

    Args:
        found: of independent populations.
        power: the target.
        num_particles: N.
        sizes: what must be seen.

    Returns:
        Two findings, both as shares of their truths.
    """
    ratios = np.exp(np.asarray(found.log_Z_hat, np.float64) - power.log_Z)
    dead = int(np.isneginf(np.asarray(found.log_Z_hat)).sum())
    note = f"{dead} populations died (Z_hat = 0)" if dead else ""
    probs = law_probs_of(power)
    mean_length = sum(len(sequence) * prob for sequence, prob in probs.items())
    scale = np.exp(-power.log_Z) / mean_length
    lengths = np.asarray(found.mean_length, np.float64) * scale
    return [
        mean_finding(f"Z_hat / Z, N = {num_particles}", ratios, 1.0, sizes.mean_limit)._replace(
            note=note
        ),
        mean_finding(
            f"weighted length / (Z E length), N = {num_particles}", lengths, 1.0, sizes.mean_limit
        ),
    ]


def law_probs_of(power: PowerLaw) -> dict[tuple[int, ...], float]:
    """The target as a dictionary.

    Args:
        power: the target.

    Returns:
        Probability of each sequence.
    """
    listed = enumerate_sequences((power.law,))
    return dict(zip(listed.sequences, np.exp(listed.log_probs[0]).tolist(), strict=True))


def variance_finding(
    log_Z_hat: jax.Array,
    power: PowerLaw,
    exact: float,
    num_particles: int,
    sizes: Sizes,
    num_tokens: int,
) -> Finding:
    """E (Z_hat / Z - 1)^2 against the exact relative variance.

    Z_hat is computed in float32: log Z_hat may be off by 8 epsilon a token, and the estimate by the square of that, whatever the exact
    variance. Where all weights are equal the exact variance is 0, and rounding is all that is seen. Estimates this close to the truth
    count as equal to it, and the limit is wider by as much.

    Args:
        log_Z_hat: [M] of independent populations.
        power: the target.
        exact: Var(Z_hat / Z).
        num_particles: N.
        sizes: what must be seen.
        num_tokens: T, the longest sequence.

    Returns:
        The finding; its limit is a share of the truth and (8 epsilon T)^2.
    """
    squares = (np.exp(np.asarray(log_Z_hat, np.float64) - power.log_Z) - 1) ** 2
    rounding = (_LOG_ROUNDING * num_tokens) ** 2
    nearest = float(np.clip(squares.mean(), exact - rounding, exact + rounding))
    finding = mean_finding(
        f"Var(Z_hat / Z), N = {num_particles}",
        squares,
        nearest,
        sizes.variance_limit * exact + rounding,
    )
    return finding._replace(truth=float(exact))


def conditional_check(name: str) -> Build:
    """Conditional SMC around exact draws of the target: a row drawn from the population follows it again, and E[Z / Z_hat] = 1.

    The second is the harmonic identity behind the upper bound on log Z (`theory.smc.bounds`).

    Args:
        name: of the kernel.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        conditional = smc.conditional_smc
        resampler = resampling.conditional_multinomial
        rules = smc.temperature_proposal(ALPHA)

        def run(key: jax.Array, model: Any, reference: Any, ids: jax.Array) -> Outcome:
            empty = jnp.zeros((ids.shape[0], 0), jnp.int32)
            population = smc.start_populations(
                model, empty, jnp.zeros(ids.shape, jnp.int32), ids, CONDITIONAL
            )
            schedule = smc.every(model.horizon)
            population, _ = conditional(
                key, model, rules, ALPHA, reference, population, resampler, schedule
            )
            return summary(key, model, population)

        compiled = jit(run)
        start_at = starter(jit, mcmc.make_design(ALPHA, ALPHA, mcmc.uniform_cut()))

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            power = power_law(case.layers, ALPHA)
            target, log_Z = law_probs(case, power.law), power.log_Z
            generator = np.random.default_rng(seed)
            starts = generator.choice(target.size, sizes.draws, p=target / target.sum())
            space = sequence_space(case.table, ALPHA)
            reference = start_at(case, space, starts).generation
            ids = jnp.arange(sizes.draws, dtype=jnp.int32)
            found = compiled(key_of(seed, name, case), case.model, reference, ids)
            cells = cells_of(case, found.tokens, found.lengths)
            ratios = np.exp(log_Z - np.asarray(found.log_Z_hat, np.float64))
            return Found(
                [
                    law_finding(
                        f"invariance of the target, N = {CONDITIONAL}",
                        cells,
                        target,
                        sizes.law_limit,
                    ),
                    mean_finding(
                        f"Z / Z_hat around exact draws, N = {CONDITIONAL}",
                        ratios,
                        1.0,
                        sizes.mean_limit,
                    ),
                ]
            )

        return check

    return build

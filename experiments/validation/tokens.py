"""Token rules and generation: the law that a rule draws from, the draws themselves, and the law of whole rows.

Rules are looked up in `theory.decoding`, generation in `theory.generation`, when a check is made.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.validation import token_laws
from experiments.validation.cases import (
    ALPHA,
    Build,
    Case,
    Check,
    Jit,
    Sizes,
    cells_of,
    key_of,
)
from experiments.validation.findings import Finding, Found, exact_finding, law_finding, mean_finding
from experiments.validation.token_laws import Reference
from experiments.validation.weighted import draw
from theory import decoding
from theory.exact.enumeration import enumerate_sequences
from theory.exact.laws import base_law
from theory.keys import Role, role_key, row_keys

DISTINCT = 6
"""Rows drawn without replacement."""

_FLOAT32 = 1e-5  # of a probability, and of a log probability relative to 1 + |log p|


class Rule(NamedTuple):
    """A rule and its definition.

    Attributes:
        rules: looks the pipeline up.
        law: by definition.
    """

    rules: Callable[[], tuple[Any, ...]]
    law: Reference


RULES: dict[str, Rule] = {
    "temperature": Rule(lambda: (decoding.temperature(0.6),), token_laws.temperature(0.6)),
    "top-k": Rule(lambda: (decoding.top_k(2),), token_laws.top_k(2)),
    "top-p": Rule(lambda: (decoding.top_p(0.7),), token_laws.top_p(0.7)),
    "min-p": Rule(lambda: (decoding.min_p(0.35),), token_laws.min_p(0.35)),
    "epsilon": Rule(lambda: (decoding.epsilon(0.25),), token_laws.epsilon(0.25)),
    "eta": Rule(lambda: (decoding.eta(0.3),), token_laws.eta(0.3)),
    "typical": Rule(lambda: (decoding.typical(0.5),), token_laws.typical(0.5)),
    "top-n-sigma": Rule(lambda: (decoding.top_n_sigma(1.0),), token_laws.top_n_sigma(1.0)),
    "repetition": Rule(lambda: (decoding.repetition(1.7),), token_laws.repetition(1.7)),
    "frequency": Rule(lambda: (decoding.frequency(0.6),), token_laws.frequency(0.6)),
    "presence": Rule(lambda: (decoding.presence(0.9),), token_laws.presence(0.9)),
}

PIPELINES: dict[str, str | None] = {
    "generate": None,
    "generate-temperature": "temperature",
    "generate-top-k": "top-k",
    "generate-presence": "presence",
}
"""Generation through one rule, or through none."""


def rule_check(name: str, rule: Rule) -> Build:
    """The checks of a rule, on every next-token law of the case, the mode's token generated twice and the last once.

    Args:
        name: of the rule.
        rule: and its definition.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        rules, law_of, sample = rule.rules(), decoding.token_law, decoding.sample_tokens

        def run(keys: jax.Array, log_probs: jax.Array, counts: jax.Array) -> Any:
            return law_of(rules, log_probs, counts).log_probs, sample(
                keys, rules, log_probs, counts
            )

        compiled = jit(run)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            log_p, counts = _laws(case)
            probs = np.exp(log_p)
            exact = np.stack([rule.law(p / p.sum(), c) for p, c in zip(probs, counts, strict=True)])
            which = np.arange(sizes.draws) % len(exact)
            keys = row_keys(
                role_key(key_of(seed, name, case), Role.TOKEN),
                jnp.arange(sizes.draws, dtype=jnp.int32),
            )
            logits = jnp.asarray(log_p[which], jnp.float32)
            log_q, drawn = compiled(keys, logits, jnp.asarray(counts[which], jnp.int32))
            error = np.abs(np.exp(np.asarray(log_q, np.float64)) - exact[which]).max()
            tokens = np.asarray(drawn.tokens)
            with np.errstate(divide="ignore"):
                recorded = np.log(exact)[which, tokens]
            gap = _gap(np.asarray(drawn.log_q), recorded)
            size = exact.shape[1]
            shares = np.bincount(which, minlength=len(exact)) / which.size
            return Found(
                [
                    exact_finding("law, largest error", error, 0.0, _FLOAT32),
                    exact_finding("recorded log q, largest error", gap, 0.0, _FLOAT32),
                    law_finding(
                        "tokens drawn after every prefix",
                        which * size + tokens,
                        (shares[:, None] * exact).ravel(),
                        sizes.law_limit,
                    ),
                ]
            )

        return check

    return build


def _laws(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """[C, V] the case's next-token laws, and counts for the rules that read them."""
    log_p = case.table.log_probs
    counts = np.zeros(log_p.shape, np.int64)
    counts[np.arange(len(log_p)), log_p.argmax(axis=1)] = 2
    counts[:, -1] = 1
    return log_p, counts


def _gap(found: np.ndarray, exact: np.ndarray) -> float:
    """Largest error of log probabilities, relative to 1 + |log p|; infinite where one is impossible and the other is not."""
    if not np.array_equal(np.isneginf(found), np.isneginf(exact)):
        return float("inf")
    possible = ~np.isneginf(exact)
    gaps = np.abs(found[possible] - exact[possible]) / (1 + np.abs(exact[possible]))
    return float(gaps.max(initial=0.0))


def generation_check(name: str, rule: str | None) -> Build:
    """Whole rows: their law, and the sums of log p, log q and log z that they carry.

    Args:
        name: of the sampler.
        rule: a key of RULES; None is the model's own law.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        rules = RULES[rule].rules() if rule else ()
        compiled = jit(lambda key, model, rows: draw(key, model, rules, rows))

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            records = _row_records(case, RULES[rule].law if rule else None)
            rows = jnp.arange(sizes.draws, dtype=jnp.int32)
            drawn = compiled(key_of(seed, name, case), case.model, rows)
            cells = cells_of(case, drawn.tokens, drawn.lengths)
            found = np.stack(
                [np.asarray(each).sum(axis=1) for each in (drawn.log_p, drawn.log_q, drawn.log_z)]
            )
            whole = cells < len(case.sequences)
            exact = records[:, np.minimum(cells, len(case.sequences) - 1)]
            findings: list[Finding] = [
                law_finding("law of whole rows", cells, np.exp(records[1]), sizes.law_limit)
            ]
            for what, ours, truth in zip(("log p", "log q", "log z"), found, exact, strict=True):
                gap = _gap(ours[whole], truth[whole])
                findings.append(
                    exact_finding(f"recorded {what}, largest error", gap, 0.0, _FLOAT32)
                )
            return Found(findings)

        return check

    return build


def _row_records(case: Case, law: Reference | None) -> np.ndarray:
    """[3, M] log p, log q and log z of every sequence, by walking the table in float64."""
    table = case.table
    records = np.zeros((3, len(case.sequences)))
    for place, sequence in enumerate(case.sequences):
        context, counts = table.initial, np.zeros(table.vocab_size, np.int64)
        for token in sequence:
            p = np.exp(table.log_probs[context])
            q = p if law is None else law(p / p.sum(), counts)
            with np.errstate(divide="ignore"):
                records[:, place] += np.log([p[token], q[token], (p**ALPHA).sum()])
            counts[token] += 1
            context = int(table.next_context[context, token])
    return records


def distinct_check(name: str) -> Build:
    """Sampling without replacement: the first row follows the model, and the weighted mean length is unbiased.

    Args:
        name: of the sampler.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        beam, weigh, estimate = (
            decoding.stochastic_beam,
            decoding.log_importance_weights,
            decoding.estimate_expectation,
        )

        def run(keys: jax.Array, model: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
            num = keys.shape[0]
            empty = jnp.zeros((num, 0), jnp.int32)
            found = beam(keys, model, empty, jnp.zeros(num, jnp.int32), (), DISTINCT)
            log_weights = weigh(found.log_p, found.log_q, found.kappa)
            values = found.lengths.astype(jnp.float32)
            return found.tokens[:, 0], found.lengths[:, 0], estimate(values, log_weights)

        compiled = jit(run)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            rows = jnp.arange(sizes.draws, dtype=jnp.int32)
            keys = row_keys(role_key(key_of(seed, name, case), Role.TOKEN), rows)
            tokens, lengths, estimates = compiled(keys, case.model)
            probs = np.exp(enumerate_sequences((base_law(case.layers),)).log_probs[0])
            mean = float(probs @ np.array([len(sequence) for sequence in case.sequences]))
            return Found(
                [
                    law_finding(
                        "law of the first row",
                        cells_of(case, tokens, lengths),
                        probs,
                        sizes.law_limit,
                    ),
                    mean_finding(
                        f"mean length from {DISTINCT} distinct rows",
                        np.asarray(estimates),
                        mean,
                        sizes.mean_limit * mean,
                    ),
                ]
            )

        return check

    return build

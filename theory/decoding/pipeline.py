"""Rules in a declared order, and the law that they make of a model's law.

The tuple is the order: `token_law((temperature(0.7), top_p(0.9)), ...)` first heats, then cuts. Two filters in a row are read
*sequentially*: the second one sees the renormalised law that the first one left. `joint(top_k(50), top_p(0.9))` is the other
reading: both look at the same law, and a token stays if both keep it.

The default order (`default_rules`) and why:

1. penalties, on the model's own law, so that what a repeated token costs does not depend on a mask;
2. token masks, so that mass on forbidden tokens crowds nothing out of a filter;
3. temperature, so that the masses that filters speak of are those of the law that is drawn from;
4. top-k, top-p, min-p, epsilon, eta and top-n-sigma, jointly: each parameter then means the same whatever the others are, and
   their order does not matter;
5. typical, last and alone, since it may drop the most likely token and, put in joint, could leave nothing.
"""

from itertools import groupby
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theory.decoding.orders import DEFAULT_ORDER
from theory.decoding.row_law import has_law, normalise
from theory.decoding.rule import Filter, TokenRule, cut
from theory.errors import InvalidInput


class TokenLaw(NamedTuple):
    """The law that tokens are really drawn from.

    Attributes:
        log_probs: [B, V] log q, normalised; -inf off the support, and everywhere in a failed row. Never NaN.
        support: [B, V] tokens that can be drawn.
        failed: [B] rows without a law: NaN, +inf or nothing but -inf came in, or every possible token was masked.
    """

    log_probs: Float[Array, "B V"]
    support: Bool[Array, "B V"]
    failed: Bool[Array, " B"]


class Joint(NamedTuple):
    """Filters side by side: a token stays if every one of them keeps it on the same law.

    Attributes:
        filters: each keeps the mode, so that something always stays; their order does not matter.
    """

    filters: tuple[Filter, ...]

    name = "joint"
    reads_counts = False
    keeps_mode = True

    def truncates(self) -> bool:
        """If one of them does."""
        return is_truncating(self.filters)

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """See `Filter.keep`."""
        kept = jnp.ones(logits.shape, bool)
        for rule in self.filters:
            kept &= rule.keep(logits)
        return kept

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """See `TokenRule`."""
        return cut(logits, self.keep(logits))


def joint(*filters: Filter) -> Joint:
    """Filters side by side.

    Args:
        filters: in any order.

    Returns:
        One filter.

    Raises:
        InvalidInput: a filter may drop the most likely token, so that together they might keep nothing.
    """
    for rule in filters:
        if not rule.keeps_mode:
            raise InvalidInput(
                f"joint filters: {rule.name} may drop the most likely token and leave nothing, "
                f"put it before or after them"
            )
    return Joint(filters)


def jointly(rules: tuple[TokenRule, ...]) -> tuple[TokenRule, ...]:
    """The same rules with every run of neighbouring filters that keep the mode read jointly.

    Args:
        rules: read sequentially.

    Returns:
        Rules in the same order.
    """

    def is_mergeable(rule: TokenRule) -> bool:
        return isinstance(rule, Filter) and rule.keeps_mode

    merged: list[TokenRule] = []
    for mergeable, group in groupby(rules, is_mergeable):
        run = tuple(group)
        if mergeable and len(run) > 1:
            merged.append(joint(*(rule for rule in run if isinstance(rule, Filter))))
        else:
            merged.extend(run)
    return tuple(merged)


def arrange(rules: tuple[TokenRule, ...], order: tuple[str, ...]) -> tuple[TokenRule, ...]:
    """Rules sorted into an order, read sequentially; rules of one name stay as they stand.

    Args:
        rules: in any order.
        order: names of rules, first to last: `DEFAULT_ORDER`, or that of a library (`LIBRARIES`).

    Returns:
        The rules.

    Raises:
        InvalidInput: the order does not know a rule.
    """
    for rule in rules:
        if rule.name not in order:
            raise InvalidInput(f"rule {rule.name}: no place in this order ({', '.join(order)})")
    return tuple(sorted(rules, key=lambda rule: order.index(rule.name)))


def default_rules(*rules: TokenRule) -> tuple[TokenRule, ...]:
    """Rules in the default order, with joint filters.

    Args:
        rules: in any order.

    Returns:
        The pipeline.

    Raises:
        InvalidInput: the default order does not know a rule.
    """
    return jointly(arrange(rules, DEFAULT_ORDER))


def is_truncating(rules: tuple[TokenRule, ...]) -> bool:
    """Whether the pipeline may take a token of positive probability out of the support.

    A truncated proposal cannot serve a target with full support. Eager: call it where rules have values, outside of jit.

    Args:
        rules: a pipeline.

    Returns:
        What the rules declare; "may" is counted as "does".
    """
    return any(rule.truncates() for rule in rules)


def reads_counts(rules: tuple[TokenRule, ...]) -> bool:
    """Whether the pipeline needs the counts of generated tokens (otherwise `no_counts` will do).

    Args:
        rules: a pipeline.

    Returns:
        Whether one of the rules reads them.
    """
    return any(rule.reads_counts for rule in rules)


def token_law(
    rules: tuple[TokenRule, ...], logits: Float[Array, "B V"], counts: Int[Array, "B V"]
) -> TokenLaw:
    """The law that the rules make of a model's law: exactly what `sample_tokens` draws from.

        q = softmax(rule_n(... rule_1(logits)))

    Computed in float32, or wider if the logits are; half-precision logits are widened first.

    Args:
        rules: applied first to last; none is the model's own law.
        logits: [B, V] natural log; need not be normalised.
        counts: [B, V] tokens that each row has generated.

    Returns:
        The law, never NaN.
    """
    if jnp.finfo(logits.dtype).bits < 32:
        logits = logits.astype(jnp.float32)
    lawful = has_law(logits)
    logits = jnp.where(lawful[:, None], logits, 0.0)
    for rule in rules:
        logits = rule(logits, counts)
    failed = ~(lawful & has_law(logits))
    log_probs = jnp.where(failed[:, None], -jnp.inf, normalise(logits))
    return TokenLaw(log_probs, log_probs > -jnp.inf, failed)

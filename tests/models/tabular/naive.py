"""The plainest possible reading of a context table: one token, one prefix at a time."""

import math

from theory.exact.context_table import ContextTable

Tokens = tuple[int, ...]


def law_after(table: ContextTable, prefix: Tokens) -> list[float]:
    """Log law of the token after a prefix."""
    context = table.initial
    for token in prefix:
        context = int(table.next_context[context, token])
    return table.log_probs[context].tolist()


def sequences(table: ContextTable, alpha: float = 1.0) -> dict[Tokens, float]:
    """Every sequence of positive probability with alpha log p, by recursion."""
    found: dict[Tokens, float] = {}

    def visit(prefix: Tokens, log_prob: float) -> None:
        if len(prefix) == table.horizon or (prefix and prefix[-1] in table.eos):
            found[prefix] = alpha * log_prob
            return
        for token, value in enumerate(law_after(table, prefix)):
            if value > -math.inf:
                visit((*prefix, token), log_prob + value)

    visit((), 0.0)
    return found


def first_token_power(table: ContextTable, alpha: float) -> list[float]:
    """P(first token) under p(y)**alpha, by summing over sequences."""
    masses = [0.0] * table.vocab_size
    for tokens, value in sequences(table, alpha).items():
        masses[tokens[0]] += math.exp(value)
    return [mass / sum(masses) for mass in masses]


def first_token_temperature(table: ContextTable, alpha: float) -> list[float]:
    """P(first token) at token temperature 1/alpha."""
    masses = [math.exp(alpha * value) for value in law_after(table, ())]
    return [mass / sum(masses) for mass in masses]

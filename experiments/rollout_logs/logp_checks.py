"""Whether two log probabilities may be compared at all."""

from experiments.rollout_logs.checks import Check
from experiments.rollout_logs.refusals import Refused, refuse
from experiments.rollout_logs.task_table import Log


def behavior_present(log: Log) -> Refused | None:
    """R18: the denominator was recorded."""
    if log.facts.present["behavior_logp"]:
        return None
    return refuse("R18", "no row has behavior_logp")


def sums_not_means(log: Log) -> Refused | None:
    """R7: log probabilities are of the whole trajectory."""
    facts = log.facts
    declared = facts.distinct.get("logp_reduction", ())
    if "mean" in declared:
        return refuse("R7", "logp_reduction is mean")
    if declared or facts.like_means is None:
        return None
    per_token, tokens = facts.like_means
    return refuse(
        "R7",
        f"the median log probability is {per_token:.3g} a token over {tokens:g} tokens, which looks like a mean over tokens",
    )


def processed(log: Log) -> Refused | None:
    """R19: behavior_logp is of the law that drew."""
    facts = log.facts
    changed = max(facts.tempered, facts.cut_rule)
    if not changed:
        return None
    sources = facts.distinct.get("behavior_logp_source", ())
    if "raw" in sources:
        return refuse(
            "R19", f"behavior_logp_source is raw and {changed} rows were tempered or truncated"
        )
    if not sources and facts.behavior_is_base >= changed:
        return refuse(
            "R19",
            f"behavior_logp equals base_logp in the {changed} rows that were tempered or truncated",
        )
    return None


def same_law(name: str) -> Check:
    """R9: both log probabilities are of laws over the same tokens.

    Args:
        name: the other one, beside behavior_logp.

    Returns:
        The check.
    """

    def check(log: Log) -> Refused | None:
        facts = log.facts
        behavior = facts.distinct.get("behavior_logp_source", ())
        other = facts.distinct.get(f"{name}_source", ())
        if facts.cut_rule and "processed" in behavior and "raw" in other:
            return refuse(
                "R9",
                f"behavior_logp is processed under top-p, top-k or min-p and {name} is raw",
            )
        return None

    return check


def covers(name: str) -> Check:
    """R20: what the target can draw the proposal could.

    Args:
        name: log probability of the target.

    Returns:
        The check.
    """

    def check(log: Log) -> Refused | None:
        facts = log.facts
        if not facts.cut_rule or "processed" in facts.distinct.get(f"{name}_source", ()):
            return None
        return refuse(
            "R20",
            f"{facts.cut_rule} rows were drawn under top-p, top-k or min-p, {name} is of all tokens",
        )

    return check

"""What a log is like as a whole: what its rows have, and whether the rows of a prompt belong together."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import duckdb

from experiments.rollout_logs.analysis import PolicyRecord
from experiments.rollout_logs.database import all_rows, one_number, one_row
from experiments.rollout_logs.narrow_columns import COUNTED, WHOLE
from theory.estimators.off_policy.ratios import SENTINEL

_SETTINGS = ("sampler", "temperature", "top_p", "top_k", "min_p")
_LOGPS = ("base_logp", "behavior_logp", "target_logp")
# A sampled trajectory of 50 tokens or more loses more than this many nats a token, unless nearly every token is certain.
LEAST_PER_TOKEN = 0.002
_LONG = 50
_SHOWN = "CASE WHEN completion_tokens > 0 AND isfinite({0}) AND {0} <= 0 THEN {0} / completion_tokens END"
_PER_TOKEN = f"coalesce({_SHOWN.format('behavior_logp')}, {_SHOWN.format('base_logp')})"
_LISTED = 50  # names that are listed at most


class Facts(NamedTuple):
    """Counts over all used rows.

    Attributes:
        rows: used rows.
        prompts: tasks.
        samples: least and most rows of a task.
        present: column -> rows that have it, and "rows".
        unusable: log probability -> rows where it is positive, not finite or a stand-in.
        distinct: column of few texts -> its values, at most a few.
        truncated: rows cut at the horizon.
        failed: rows with an error.
        related_prompts: prompts of which rows share a branch, parent, population or chain, or are attempts.
        mixed_policies: prompts with several policies.
        mixed_settings: prompts with several sampler settings.
        reward_range: least and greatest finite reward.
        reward_not_finite: rows.
        reward_binary: whether every finite reward is 0 or 1.
        score_range: least and greatest finite score.
        score_not_finite: rows.
        same_verifier: rows whose two verifiers are the same.
        tempered: rows drawn at a temperature other than 1.
        cut_rule: rows drawn under top-p, top-k or min-p.
        like_means: where log probabilities look like means over tokens, the median of behavior_logp (else base_logp) over tokens and that of
            tokens, of the rows with both; else None.
        behavior_is_base: rows where both are equal, of those that have both and were tempered or cut.
        branches: of rows whose branch is a list of steps, mean number of different first steps and of different first two steps of a prompt,
            or None.
        steps: steps of training that rows are of, where no prompt has rows of two; else 0.
        zero_logp_share: share of the tokens with a recorded log probability of exactly 0, or None.
        policy: whose rollouts these are.
    """

    rows: int
    prompts: int
    samples: tuple[int, int]
    present: Mapping[str, int]
    unusable: Mapping[str, int]
    distinct: Mapping[str, tuple[str, ...]]
    truncated: int
    failed: int
    related_prompts: int
    mixed_policies: int
    mixed_settings: int
    reward_range: tuple[float, float] | None
    reward_not_finite: int
    reward_binary: bool
    score_range: tuple[float, float] | None
    score_not_finite: int
    same_verifier: int
    tempered: int
    cut_rule: int
    like_means: tuple[float, float] | None
    behavior_is_base: int
    branches: tuple[float, float] | None
    steps: int
    zero_logp_share: float | None
    policy: PolicyRecord


def gather_facts(connection: duckdb.DuckDBPyConnection) -> Facts:
    """Count.

    Args:
        connection: with `staged` and `prompts`.

    Returns:
        The facts.
    """
    present = one_row(
        connection,
        "SELECT count(*) AS rows, "
        + ", ".join(f"count({name}) AS {name}" for name in COUNTED)
        + " FROM staged",
    )
    numbers = _numbers(connection)
    sizes = one_row(
        connection,
        "SELECT min(number) AS least, max(number) AS most, count(*) AS prompts FROM prompts",
    )
    distinct = {
        name: _distinct(connection, name)
        for name in (
            "law",
            "logp_reduction",
            "base_logp_source",
            "behavior_logp_source",
            "target_logp_source",
            "policy_id",
        )
        if present[name]
    }
    return Facts(
        rows=present["rows"],
        prompts=sizes["prompts"],
        samples=(sizes["least"] or 0, sizes["most"] or 0),
        present=present,
        unusable={name: numbers[f"{name}_unusable"] for name in _LOGPS},
        distinct=distinct,
        truncated=numbers["truncated"],
        failed=numbers["failed"],
        related_prompts=_related(connection, present),
        mixed_policies=_mixed(connection, present, ("policy_id",)),
        mixed_settings=_mixed(connection, present, _SETTINGS),
        reward_range=_range(numbers, "reward"),
        reward_not_finite=numbers["reward_odd"],
        reward_binary=bool(numbers["reward_binary"]),
        score_range=_range(numbers, "score"),
        score_not_finite=numbers["score_odd"],
        same_verifier=numbers["same_verifier"],
        tempered=numbers["tempered"],
        cut_rule=numbers["cut_rule"],
        like_means=_like_means(connection, numbers),
        behavior_is_base=numbers["behavior_is_base"],
        steps=_steps(connection) if present["step"] else 0,
        branches=_branches(connection) if present["branch_id"] else None,
        zero_logp_share=numbers["zero_share"],
        policy=_policy(connection, distinct.get("policy_id", ()), present),
    )


def unusable(name: str) -> str:
    """The condition, in SQL, under which a log probability counts as missing although it is there: that of `missing_sequence_log_probs`.

    Args:
        name: of the column.

    Returns:
        An expression.
    """
    stand_in = f"{name} <= {SENTINEL} AND {name} > -completion_tokens IS NOT TRUE"
    return f"({name} > 0 OR NOT isfinite({name}) OR {stand_in})"


def _steps(connection: duckdb.DuckDBPyConnection) -> int:
    return one_number(
        connection,
        "SELECT CASE WHEN bool_or(least < most) THEN 0 ELSE count(DISTINCT least) END FROM "
        "(SELECT min(step) AS least, max(step) AS most FROM staged GROUP BY prompt)",
    )


def _numbers(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    cut = "(top_p < 1 OR top_k > 0 OR min_p > 0)"
    return one_row(
        connection,
        "SELECT "
        + ", ".join(
            [f"count(*) FILTER ({unusable(name)}) AS {name}_unusable" for name in _LOGPS]
            + [
                f"{end}({name}) FILTER (isfinite({name})) AS {name}_{end}"
                for name in ("reward", "score")
                for end in ("min", "max")
            ]
            + [
                f"count(*) FILTER (NOT isfinite({name})) AS {name}_odd"
                for name in ("reward", "score")
            ]
            + [
                "coalesce(bool_and(reward IN (0, 1)) FILTER (isfinite(reward)), false) AS reward_binary",
                "count(*) FILTER (truncated = 1) AS truncated",
                "sum(zero_logp_tokens) / nullif(sum(completion_tokens) FILTER (zero_logp_tokens IS NOT NULL), 0) AS zero_share",
                "count(*) FILTER (failed = 1) AS failed",
                "count(*) FILTER (verifier_id_search = verifier_id_final) AS same_verifier",
                "count(*) FILTER (temperature <> 1) AS tempered",
                f"count(*) FILTER {cut} AS cut_rule",
                f"count({_PER_TOKEN}) AS measured",
                f"count(*) FILTER ({_PER_TOKEN} > {-LEAST_PER_TOKEN}) AS near_zero",
                f"count(*) FILTER ({_PER_TOKEN} IS NOT NULL AND completion_tokens >= {_LONG}) AS long",
                f"count(*) FILTER (behavior_logp = base_logp AND (temperature <> 1 OR {cut})) AS behavior_is_base",
            ]
        )
        + " FROM staged",
    )


def _like_means(
    connection: duckdb.DuckDBPyConnection, numbers: Mapping[str, Any]
) -> tuple[float, float] | None:
    """Both medians where they are beyond the limits: counts say so, and few logs have to be sorted."""
    measured = numbers["measured"]
    if not measured or 2 * min(numbers["near_zero"], numbers["long"]) <= measured:
        return None
    middle = (measured - 1) // 2
    per_token, tokens = (
        all_rows(
            connection,
            f"SELECT {value} AS value FROM staged WHERE {_PER_TOKEN} IS NOT NULL ORDER BY value LIMIT 1 OFFSET {middle}",
        )[0][0]
        for value in (_PER_TOKEN, "completion_tokens")
    )
    return float(per_token), float(tokens)


def _range(numbers: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    low = numbers[f"{name}_min"]
    return None if low is None else (float(low), float(numbers[f"{name}_max"]))


def _distinct(connection: duckdb.DuckDBPyConnection, name: str) -> tuple[str, ...]:
    number = f"TRY_CAST({name} AS BIGINT)"
    rows = all_rows(
        connection,
        f"SELECT {name} FROM staged WHERE {name} IS NOT NULL GROUP BY {name} ORDER BY {number}, {name} LIMIT {_LISTED}",
    )
    return tuple(str(row[0]) for row in rows)


def _related(connection: duckdb.DuckDBPyConnection, present: Mapping[str, int]) -> int:
    """Prompts with rows that are no independent draws."""
    conditions = [
        f"count({name}) > count(DISTINCT {name})"
        for name in ("population_id", "chain_id")
        if present[name]
    ]
    if present["branch_id"]:
        conditions.append("count(branch_id) > 1")
    if present["parent_id"]:
        conditions.append("count(parent_id) > 0")
    if present["attempt"]:
        conditions.append("max(attempt) > 0")
    if not conditions:
        return 0
    return one_number(
        connection,
        f"SELECT count(*) FROM (SELECT prompt FROM staged GROUP BY prompt HAVING {' OR '.join(conditions)})",
    )


def _branches(connection: duckdb.DuckDBPyConnection) -> tuple[float, float] | None:
    found = one_row(
        connection,
        "SELECT avg(first) AS first, avg(second) AS second FROM ("
        "SELECT count(DISTINCT branch_id->0) AS first, count(DISTINCT concat_ws(chr(31), branch_id->>0, branch_id->>1)) AS second FROM staged "
        "WHERE starts_with(branch_id, '[') AND json_valid(branch_id) GROUP BY prompt)",
    )
    return None if found["first"] is None else (found["first"], found["second"])


def _mixed(
    connection: duckdb.DuckDBPyConnection, present: Mapping[str, int], names: tuple[str, ...]
) -> int:
    """Prompts whose rows differ in a column; absent is a value of its own."""
    conditions = [
        f"min({name}) <> max({name}) OR count({name}) NOT IN (0, count(*))"
        for name in names
        if present[name]
    ]
    if not conditions:
        return 0
    return one_number(
        connection,
        f"SELECT count(*) FROM (SELECT prompt FROM staged GROUP BY prompt HAVING {' OR '.join(conditions)})",
    )


def _policy(
    connection: duckdb.DuckDBPyConnection, policies: tuple[str, ...], present: Mapping[str, int]
) -> PolicyRecord:
    names, lag = policies, None
    if present["policy_version"]:
        number = (
            f"CASE WHEN regexp_full_match(policy_version, {WHOLE}) THEN policy_version::HUGEINT END"
        )
        found = one_row(
            connection,
            "SELECT min(number) AS low, max(number) AS high, count(*) = count(number) AS whole, min(version) AS first, max(version) AS last "
            f"FROM (SELECT policy_version AS version, {number} AS number FROM staged WHERE policy_version IS NOT NULL)",
        )
        ends = ("low", "high") if found["whole"] else ("first", "last")
        lag = int(found["high"] - found["low"]) if found["whole"] else None
        span = " ... ".join(dict.fromkeys(str(found[end]) for end in ends))
        names = tuple(f"{name} version {span}" for name in names) or (f"version {span}",)
    return PolicyRecord(names, names[0] if len(names) == 1 else None, lag)

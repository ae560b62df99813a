"""The columns that statistics read: numbers, hashes and flags made from the typed fields of a row.

Hashes have 64 bits: among 10,000 answers of a prompt two share one by chance with probability 3e-12.
"""

from collections.abc import Collection
from typing import NamedTuple

from experiments.rollout_logs.typed_fields import TOKEN_RATIOS, TURN_RATIOS

# What ends a completion at the horizon, in the words of the libraries that write logs.
TRUNCATED_REASONS = (
    "length",
    "max_tokens",
    "max_length",
    "truncated",
    "incomplete",
    "model_length",
)

WHOLE = "'(0|-?[1-9][0-9]{0,17})'"


class NarrowColumn(NamedTuple):
    """A column of the table of rows.

    Attributes:
        name: of the column.
        sql_type: of DuckDB.
        sources: the fields that it is made from; without any of them it is NULL.
        expression: in SQL.
    """

    name: str
    sql_type: str
    sources: tuple[str, ...]
    expression: str


def _same(sql_type: str, names: str) -> list[NarrowColumn]:
    return [NarrowColumn(name, sql_type, (name,), name) for name in names.split()]


_CUT = ", ".join(f"'{reason}'" for reason in TRUNCATED_REASONS)

NARROW_COLUMNS: tuple[NarrowColumn, ...] = (
    NarrowColumn("prompt", "VARCHAR", ("prompt_id",), "prompt_id"),
    NarrowColumn(
        "sample_number",
        "BIGINT",
        ("sample_id",),
        f"CASE WHEN regexp_full_match(sample_id, {WHOLE}) THEN sample_id::BIGINT END",
    ),
    NarrowColumn(
        "sample_text",
        "VARCHAR",
        ("sample_id",),
        f"CASE WHEN NOT regexp_full_match(sample_id, {WHOLE}) THEN sample_id END",
    ),
    *_same("VARCHAR", "branch_id parent_id population_id chain_id policy_id policy_version"),
    NarrowColumn("step", "DOUBLE", ("step",), "step::DOUBLE"),
    NarrowColumn(
        "version_number",
        "DOUBLE",
        ("policy_version",),
        f"CASE WHEN regexp_full_match(policy_version, {WHOLE}) THEN policy_version::BIGINT::DOUBLE END",
    ),
    *_same("BIGINT", "attempt"),
    *_same("VARCHAR", "sampler"),
    *_same("DOUBLE", "temperature top_p min_p"),
    *_same("BIGINT", "top_k"),
    NarrowColumn(
        "answer_code", "UBIGINT", ("answer",), "CASE WHEN answer IS NOT NULL THEN hash(answer) END"
    ),
    *_same("VARCHAR", "answer answer_raw"),
    NarrowColumn("correct", "TINYINT", ("correct",), "correct::TINYINT"),
    *_same("DOUBLE", "reward score"),
    NarrowColumn(
        "trajectory",
        "UBIGINT",
        ("text_sha256", "tokens", "_text"),
        "CASE WHEN coalesce(text_sha256, tokens, _text) IS NOT NULL THEN hash(coalesce(text_sha256, tokens, _text)) END",
    ),
    *_same("VARCHAR", "verifier_id_search verifier_id_final"),
    *_same("DOUBLE", "base_logp behavior_logp target_logp"),
    *_same(
        "VARCHAR",
        "logp_reduction base_logp_source behavior_logp_source target_logp_source law",
    ),
    *_same("DOUBLE", "log_weight"),
    NarrowColumn(
        "completion_tokens",
        "BIGINT",
        ("completion_tokens", "tokens"),
        "coalesce(completion_tokens, json_array_length(tokens)::BIGINT)",
    ),
    *_same("VARCHAR", "finish_reason"),
    NarrowColumn(
        "truncated", "TINYINT", ("finish_reason",), f"(finish_reason IN ({_CUT}))::TINYINT"
    ),
    *_same("VARCHAR", "error"),
    NarrowColumn("failed", "TINYINT", ("error",), "CASE WHEN error <> '' THEN 1 END::TINYINT"),
    *_same("DOUBLE", "wall_s"),
    *_same("BIGINT", "model_calls verifier_calls tool_calls env_steps"),
    NarrowColumn("prompt_hashed", "BOOLEAN", ("_prompt_hashed",), "_prompt_hashed"),
    NarrowColumn(
        "missing_logp_tokens", "BIGINT", ("_missing_logp_tokens",), "_missing_logp_tokens"
    ),
    NarrowColumn("zero_logp_tokens", "BIGINT", ("_zero_logp_tokens",), "_zero_logp_tokens"),
    NarrowColumn(
        "token_log_ratios", "DOUBLE[]", (TOKEN_RATIOS, "target_logp_tokens"), TOKEN_RATIOS
    ),
    NarrowColumn("turn_log_ratios", "DOUBLE[]", (TURN_RATIOS, "turn_lengths"), TURN_RATIOS),
    NarrowColumn("completion", "VARCHAR", ("_text",), "_text"),
    NarrowColumn("completion_length", "BIGINT", ("_text",), "_text_length"),
)


# What is counted in the whole log: all but the key of the tasks and what only says more of another column.
COUNTED = tuple(
    column.name
    for column in NARROW_COLUMNS
    if column.name
    not in {
        "prompt",
        "answer_raw",
        "completion_length",
        "missing_logp_tokens",
        "zero_logp_tokens",
    }
)


def carried(fields: Collection[str]) -> str:
    """The columns that rows with some fields can have.

    Args:
        fields: typed fields that are in some row.

    Returns:
        What to select from the typed rows.
    """
    return ", ".join(
        f"{column.expression} AS {column.name}"
        for column in NARROW_COLUMNS
        if not fields_of(column).isdisjoint(fields)
    )


def columns_of(fields: Collection[str]) -> list[str]:
    """Which those are.

    Args:
        fields: typed fields that are in some row.

    Returns:
        Names of columns.
    """
    return [column.name for column in NARROW_COLUMNS if not fields_of(column).isdisjoint(fields)]


def completed(names: Collection[str]) -> str:
    """All columns, those that are not there as NULL.

    Args:
        names: of columns that are there.

    Returns:
        What to select from the table that `carried` filled.
    """
    return ", ".join(
        column.name if column.name in names else f"NULL::{column.sql_type} AS {column.name}"
        for column in NARROW_COLUMNS
    )


def fields_of(column: NarrowColumn) -> frozenset[str]:
    """The fields that a column is made from.

    Args:
        column: of the table.

    Returns:
        Their names.
    """
    return frozenset(column.sources)

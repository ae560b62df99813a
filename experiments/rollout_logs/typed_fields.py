"""The fields of a row that statistics use, and their types inside the database.

An identifier is compared as text there, so that `7` and `"7"` name one prompt. Lists of token ids are kept as JSON text, because only
their equality and length matter; what has no use in a statistic is not carried.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from experiments.rollout_logs.schema import (
    BY_NAME,
    COUNT,
    COUNTS,
    FLAG,
    IDENTIFIER,
    NUMBER,
    SETTINGS,
    WHOLE,
    Kind,
)
from experiments.rollout_logs.visible_text import TEXT_LIMIT

# Of rows with log probabilities by token: log ratios of tokens and of turns.
TOKEN_RATIOS, TURN_RATIOS = "_token_log_ratios", "_turn_log_ratios"

# Beside the fields of the schema: see `experiments.rollout_logs.records.PRIVATE`.
TEXT_FIELD, TEXT_LENGTH = "_text", "_text_length"
_PRIVATE = {
    TEXT_FIELD: ("VARCHAR", pa.string()),
    TEXT_LENGTH: ("BIGINT", pa.int64()),
    "_prompt_hashed": ("BOOLEAN", pa.bool_()),
    "_missing_logp_tokens": ("BIGINT", pa.int64()),
    "_zero_logp_tokens": ("BIGINT", pa.int64()),
    TOKEN_RATIOS: ("DOUBLE[]", pa.list_(pa.float64())),
    TURN_RATIOS: ("DOUBLE[]", pa.list_(pa.float64())),
}


class TypedField(NamedTuple):
    """A field as the database holds it.

    Attributes:
        name: its key in the row.
        sql_type: of DuckDB.
        arrow: the same in Arrow.
    """

    name: str
    sql_type: str
    arrow: pa.DataType


_NAMES = [
    "prompt_id",
    "sample_id",
    "branch_id",
    "parent_id",
    "attempt",
    "population_id",
    "chain_id",
    "policy_id",
    "policy_version",
    "step",
    "sampler",
    "tokens",
    "text_sha256",
    "answer",
    "answer_raw",
    "correct",
    "reward",
    "score",
    "verifier_id_search",
    "verifier_id_final",
    "base_logp",
    "behavior_logp",
    "target_logp",
    "logp_reduction",
    "base_logp_source",
    "behavior_logp_source",
    "target_logp_source",
    "law",
    "log_weight",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "completion_tokens",
    "finish_reason",
    "error",
    "wall_s",
    "model_calls",
    "verifier_calls",
    "tool_calls",
    "env_steps",
]


def _type_of(kind: Kind) -> tuple[str, pa.DataType]:
    if kind is FLAG:
        return "BOOLEAN", pa.bool_()
    if kind in (COUNT, WHOLE):
        return "BIGINT", pa.int64()
    if kind is NUMBER:
        return "DOUBLE", pa.float64()
    return "VARCHAR", pa.string()


TYPED_FIELDS = tuple(TypedField(name, *_type_of(BY_NAME[name].kind)) for name in _NAMES)
PRIVATE_FIELDS = tuple(TypedField(name, *types) for name, types in _PRIVATE.items())
ARROW_SCHEMA = pa.schema(
    [pa.field(field.name, field.arrow) for field in (*TYPED_FIELDS, *PRIVATE_FIELDS)]
)


def typed_value(name: str, value: Any) -> Any:
    """A canonical value as the database takes it.

    Args:
        name: of the field.
        value: valid for it, or None.

    Returns:
        The value; identifiers, settings and token ids as text.
    """
    if value is None:
        return None
    if name == TEXT_FIELD:
        return str(value)[:TEXT_LIMIT]
    if name in _PRIVATE:
        return value
    kind = BY_NAME[name].kind
    if kind is IDENTIFIER:
        return str(value)
    if kind is FLAG:
        return bool(value)
    if kind in (COUNTS, SETTINGS):
        return json.dumps(value, separators=(",", ":"), sort_keys=True)
    return value


def typed_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of one canonical row that are carried.

    Args:
        values: canonical field -> value; `_text` is the completion.

    Returns:
        Field -> value for every field of `ARROW_SCHEMA`.
    """
    typed = {name: typed_value(name, values.get(name)) for name in ARROW_SCHEMA.names}
    return typed | _whole_text(values) | _ratios(values)


def _whole_text(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a completion beside its beginning: its length, and a hash that tells it from others that begin alike."""
    text = values.get(TEXT_FIELD)
    if text is None:
        return {}
    whole: dict[str, Any] = {TEXT_LENGTH: len(text)}
    told_apart = values.get("text_sha256") is not None or values.get("tokens") is not None
    if len(text) > TEXT_LIMIT and not told_apart:
        whole["text_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return whole


def _ratios(values: Mapping[str, Any]) -> dict[str, Any]:
    """Target over behavior by token and by turn, of rows where nothing is missing: a partial product is the ratio of nothing."""
    target, behavior = values.get("target_logp_tokens"), values.get("behavior_logp_tokens")
    if not target or not behavior or len(target) != len(behavior):
        return {}
    if None in target or None in behavior:
        return {}
    ratios = np.subtract(target, behavior)
    turns = values.get("turn_lengths")
    if not turns or sum(turns) != ratios.size:
        return {TOKEN_RATIOS: ratios}
    parts = np.split(ratios, np.cumsum(turns)[:-1])
    return {TOKEN_RATIOS: ratios, TURN_RATIOS: np.array([math.fsum(part) for part in parts])}

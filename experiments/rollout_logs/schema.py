"""The canonical row of a rollout log: one trajectory, from prompt to terminal outcome.

Only `prompt_id` is required. A field that was not recorded is absent and stays absent: it is never guessed. A field that is
null was looked at and has no value in this row (the proposal density of a whole Metropolis-Hastings row, the answer
where none was found). A number that is not finite is null with `<field>_reason` beside it (`experiments.json_output`).
This is what our own writers keep to; `experiments.rollout_logs.reading` takes what other people wrote.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import pyarrow as pa

from experiments.command_line import unknown
from theory.errors import InvalidInput


class Kind(NamedTuple):
    """What a field may hold.

    Attributes:
        phrase: completes "must be ...".
        json_schema: the same in JSON schema.
        arrow: its Parquet type, or None where the values decide between string and integer.
        accepts: whether a value that is not null fits.
    """

    phrase: str
    json_schema: dict[str, Any]
    arrow: pa.DataType | None
    accepts: Callable[[Any], bool]


class Field(NamedTuple):
    """One field of the row.

    Attributes:
        name: its key.
        kind: what it may hold.
        unit: of its value, or "-".
        meaning: one line.
        choices: the only texts allowed; empty for any.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    choices: tuple[str, ...] = ()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list | tuple) and all(accepts(item) for item in cast(list[Any], value))
    )


_COUNT_SCHEMA: dict[str, Any] = {"type": "integer", "minimum": 0}

IDENTIFIER = Kind(
    "a text or a whole number",
    {"type": ["string", "integer"]},
    None,
    lambda value: isinstance(value, str) or _is_whole(value),
)
TEXT = Kind("a text", {"type": "string"}, pa.string(), lambda value: isinstance(value, str))
FLAG = Kind("true or false", {"type": "boolean"}, pa.bool_(), lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", {"type": "integer"}, pa.int64(), _is_whole)
COUNT = Kind("a whole number >= 0", _COUNT_SCHEMA, pa.int64(), _is_count)
NUMBER = Kind("a number", {"type": "number"}, pa.float64(), _is_number)
COUNTS = Kind(
    "a list of whole numbers >= 0",
    {"type": "array", "items": _COUNT_SCHEMA},
    pa.list_(pa.int64()),
    _list_of(_is_count),
)
NUMBERS = Kind(
    "a list of numbers",
    {"type": "array", "items": {"type": ["number", "null"]}},
    pa.list_(pa.float64()),
    _list_of(lambda value: value is None or _is_number(value)),
)
TEXTS = Kind(
    "a list of texts",
    {"type": "array", "items": {"type": "string"}},
    pa.list_(pa.string()),
    _list_of(lambda value: isinstance(value, str)),
)
SETTINGS = Kind(
    "an object", {"type": "object"}, pa.string(), lambda value: isinstance(value, Mapping)
)

_NATURAL = "natural log"
_SOURCE = ("raw", "processed")
_SOURCE_MEANING = "law of {}: raw model outputs, or after temperature and truncation"

FIELDS: tuple[Field, ...] = (
    Field("prompt_id", IDENTIFIER, "-", "the task; statistics are over tasks"),
    Field("prompt", COUNTS, "token", "token ids of the prompt"),
    Field("sample_id", IDENTIFIER, "-", "the trajectory among those of its prompt"),
    Field("group_id", IDENTIFIER, "-", "group whose rewards are compared in training"),
    Field("branch_id", IDENTIFIER, "-", "branch of a tree of trajectories"),
    Field("parent_id", IDENTIFIER, "-", "sample_id that it was branched or revised from"),
    Field(
        "branch_path",
        TEXTS,
        "-",
        "steps from the root of its tree; rows that share some are not IID",
    ),
    Field("attempt", COUNT, "attempt", "number of the revision, from 0"),
    Field("population_id", IDENTIFIER, "-", "population of particles: its rows are not IID"),
    Field("chain_id", IDENTIFIER, "-", "Markov chain: its rows are not IID"),
    Field("policy_id", IDENTIFIER, "-", "policy that collected the trajectory"),
    Field("policy_version", IDENTIFIER, "-", "its version, such as the update count"),
    Field("step", COUNT, "update", "training step at which it was collected or graded"),
    Field("dataset", TEXT, "-", "where the prompt comes from"),
    Field("sampler", SETTINGS, "-", "full configuration of the sampler"),
    Field("seed", WHOLE, "-", "seed of the random numbers"),
    Field("tokens", COUNTS, "token", "generated token ids, eos included when emitted"),
    Field("text_sha256", TEXT, "-", "hash of the generated text, where tokens are not kept"),
    Field("answer", TEXT, "-", "final answer in canonical form"),
    Field("answer_raw", TEXT, "-", "final answer as written"),
    Field("correct", FLAG, "-", "verdict of the final verifier"),
    Field("reward", NUMBER, "reward", "what training saw"),
    Field("score", NUMBER, "score", "what the search verifier said"),
    Field("verifier_id_search", IDENTIFIER, "-", "verifier that guided or selected"),
    Field("verifier_id_final", IDENTIFIER, "-", "verifier that graded"),
    Field("base_logp", NUMBER, _NATURAL, "log p of the tokens at temperature 1"),
    Field("base_logp_recorded", NUMBER, _NATURAL, "base_logp before re-scoring, if it differs"),
    Field("behavior_logp", NUMBER, _NATURAL, "log q of the rule that drew the whole row"),
    Field("target_logp", NUMBER, _NATURAL, "log density of the evaluated policy"),
    Field("proposal_logp", NUMBER, _NATURAL, "log q of the proposal inside a kernel or filter"),
    Field("logp_reduction", TEXT, "-", "over tokens, in every *_logp", ("sum", "mean")),
    Field("base_logp_source", TEXT, "-", _SOURCE_MEANING.format("base_logp"), _SOURCE),
    Field("behavior_logp_source", TEXT, "-", _SOURCE_MEANING.format("behavior_logp"), _SOURCE),
    Field("target_logp_source", TEXT, "-", _SOURCE_MEANING.format("target_logp"), _SOURCE),
    Field("base_logp_tokens", NUMBERS, _NATURAL, "base_logp by token"),
    Field("base_logp_tokens_recorded", NUMBERS, _NATURAL, "the same before re-scoring"),
    Field("behavior_logp_tokens", NUMBERS, _NATURAL, "behavior_logp by token"),
    Field("target_logp_tokens", NUMBERS, _NATURAL, "target_logp by token"),
    Field("log_z_sum", NUMBER, _NATURAL, "sum over tokens of log z_t at the target's alpha"),
    Field("law", TEXT, "-", "what the row is a draw from", ("exact", "weighted", "approximate")),
    Field("log_weight", NUMBER, _NATURAL, "unnormalised; 0 if exact, null if approximate"),
    Field("log_Z_hat", NUMBER, _NATURAL, "estimate of log Z by the row's population"),
    Field("temperature", NUMBER, "-", "divides the logits"),
    Field("top_p", NUMBER, "probability", "nucleus kept"),
    Field("top_k", COUNT, "token", "most probable tokens kept"),
    Field("min_p", NUMBER, "probability", "least probability kept, relative to the largest"),
    Field("prompt_tokens", COUNT, "token", "length of the prompt"),
    Field("completion_tokens", COUNT, "token", "generated length, eos included"),
    Field("finish_reason", TEXT, "-", "'eos', or 'length' where truncated at the horizon"),
    Field("error", TEXT, "-", "what went wrong in sampling or grading"),
    Field("turn_lengths", COUNTS, "token", "generated tokens by turn"),
    Field("selected", FLAG, "-", "chosen among the trajectories of its prompt"),
    Field("selection_rule", TEXT, "-", "by which rule"),
    Field("wall_s", NUMBER, "second", "wall time of the trajectory"),
    Field("model_calls", COUNT, "call", "calls of the model"),
    Field("verifier_calls", COUNT, "call", "calls of verifiers"),
    Field("tool_calls", COUNT, "call", "calls of tools"),
    Field("env_steps", COUNT, "step", "steps of the environment"),
    Field("usd", NUMBER, "US dollar", "price of the trajectory"),
)

REQUIRED = "prompt_id"
BY_NAME: dict[str, Field] = {field.name: field for field in FIELDS}
REASONS: frozenset[str] = frozenset(
    f"{field.name}_reason" for field in FIELDS if field.kind in (NUMBER, NUMBERS)
)


def validate_row(row: Mapping[str, Any], where: str) -> None:
    """Check one row.

    Args:
        row: field -> value.
        where: names the file and the row in messages.

    Raises:
        InvalidInput: `prompt_id` is missing, or a field is unknown or holds what it may not; names row, field and mend.
    """
    if row.get(REQUIRED) is None:
        raise InvalidInput(f"{where}, field '{REQUIRED}': missing, every row needs it")
    for name, value in row.items():
        if name in REASONS and isinstance(value, str):
            continue
        if name not in BY_NAME:
            raise InvalidInput(f"{where}: {unknown('field', name, BY_NAME)}")
        field = BY_NAME[name]
        if value is None:
            continue
        if not field.kind.accepts(value):
            raise InvalidInput(
                f"{where}, field '{name}': {reprlib.repr(value)} must be {field.kind.phrase}"
            )
        if field.choices and value not in field.choices:
            raise InvalidInput(
                f"{where}, field '{name}': {reprlib.repr(value)} must be one of {', '.join(field.choices)}"
            )


def ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its fields in the order of the schema, each reason after its number.

    Args:
        row: a valid row.

    Returns:
        The same fields.
    """
    keys = (key for field in FIELDS for key in (field.name, f"{field.name}_reason"))
    return {key: row[key] for key in keys if key in row}


def json_schema() -> dict[str, Any]:
    """The row as a JSON schema (draft 2020-12), published as docs/rollout_log.schema.json.

    Returns:
        The schema document.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One row of a rollout log",
        "description": "One trajectory. Absent: not recorded. Null: no value in this row.",
        "type": "object",
        "required": [REQUIRED],
        "properties": {field.name: _field_schema(field) for field in FIELDS}
        | {name: {"type": "string"} for name in sorted(REASONS)},
        "additionalProperties": False,
    }


def _field_schema(field: Field) -> dict[str, Any]:
    unit = "" if field.unit == "-" else f" [{field.unit}]"
    schema = {"description": field.meaning + unit, **field.kind.json_schema}
    if field.name != REQUIRED:
        types = schema["type"]
        schema["type"] = [*(types if isinstance(types, list) else [types]), "null"]
    if field.choices:
        schema["enum"] = [*field.choices, None]
    return schema

"""Rows in the fields of our own schema, by us or by anybody; other names for them are taken where they can mean nothing else."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.json_output import restore
from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import hashed_prompt
from experiments.rollout_logs.records import Raw
from experiments.rollout_logs.schema import BY_NAME, IDENTIFIER, REASONS, TEXT
from theory.errors import InvalidInput

_TABLES = (".csv", ".csv.gz", ".csv.zst")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "prompt_id": ("uid", "task_id", "problem_id", "unique_id", "prompt_idx", "example_id"),
    "sample_id": ("sample_idx",),
    "branch_id": ("branch_path",),
    "correct": ("passed", "is_correct", "acc", "is_solved"),
    "reward": ("trajectory_reward", "total_reward"),
}
"""Never among them: answer, target and ground_truth (mostly the reference), score (a verdict here, a verifier there),
old_logprobs (behaviour or proximal), id and idx (mostly the number of the row)."""


_UNNAMED = ("prompt", "question", "problem")
"""Texts that a row without an identifier of its prompt goes by (R13)."""


def _detect(raw: Raw) -> int:
    if "prompt_id" in raw.value:
        return 3
    known = any(name in raw.value for name in (*ALIASES["prompt_id"], *_UNNAMED))
    return int(
        known and any(name in raw.value for name in (*ALIASES["correct"], "correct", "reward"))
    )


def _start(first: Sequence[Raw], request: Request) -> Started:
    seen = {name for raw in first for name in raw.value}
    fields = {name: name for name in BY_NAME if name in seen}
    for name, aliases in ALIASES.items():
        found = [alias for alias in aliases if alias in seen]
        if name in fields or name in request.mapping or not found:
            continue
        fields[name] = _only(found, name, first)
    other_names = {name: source for name, source in fields.items() if name != source}
    text = None
    if "prompt_id" not in fields and "prompt_id" not in request.mapping:
        text = _only([name for name in _UNNAMED if name in seen], "prompt_id", first)
        fields["prompt_id"] = f"sha256 of {text}"

    def convert(raw: Raw) -> Iterator[Values]:
        values: dict[str, Any] = {}
        reasons = False
        for name, value in raw.value.items():
            if name in BY_NAME:
                values[name] = value
            elif name in REASONS:
                reasons = True
                values[name] = value
        for name, source in other_names.items():
            if name not in values and source in raw.value:
                values[name] = raw.value[source]
        if text is not None:
            values |= hashed_prompt(raw.value.get(text))
        if isinstance(values.get("branch_id"), list):  # the steps of a branch name it
            values["branch_id"] = json.dumps(values["branch_id"])
        if reasons:
            values = {key: value for key, value in restore(values).items() if key in BY_NAME}
        yield _from_cells(values) if raw.path.endswith(_TABLES) else values

    return Started(convert, fields)


def _only(found: Sequence[str], name: str, first: Sequence[Raw]) -> str:
    """The one field that can be meant."""
    if not found:
        raise InvalidInput(
            f"{first[0].path}: no field is known to name the prompt, say which: --map {name}=FIELD"
        )
    if len(found) > 1:
        raise InvalidInput(
            f"{first[0].path}: '{found[0]}' and '{found[1]}' could both be '{name}', say which: --map {name}={found[0]}"
        )
    return found[0]


def _from_cells(row: Values) -> Values:
    """The values that the cells of a CSV file spell; an empty cell is none."""
    values: Values = {}
    for name, cell in row.items():
        if not isinstance(cell, str) or BY_NAME[name].kind in (TEXT, IDENTIFIER):
            values[name] = cell or None
            continue
        try:
            values[name] = json.loads(cell.lower()) if cell else None
        except ValueError:
            values[name] = cell
    return values


ADAPTER = Adapter("native", _detect, _start)

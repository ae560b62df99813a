"""lighteval: details_TASK_DATE.parquet with the columns doc, metric and model_response, or the same between double underscores.

A metric is of the whole document: with one generation it is that sample's, with several no sample has one. `doc.gold_index` and
`doc.choices` are the reference.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import hashed_prompt, items, present, section, verdict
from experiments.rollout_logs.records import Raw
from theory.errors import InvalidInput

_COLUMNS = ("doc", "metric", "model_response")


def _detect(raw: Raw) -> int:
    return 6 * any(set(names) <= raw.value.keys() for names in (_COLUMNS, _documented(_COLUMNS)))


def _documented(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"__{name}__" for name in names)


def _column(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return section(row, name if name in row else f"__{name}__")


def _metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _column(row, "metric").items() if value is not None}


def _start(first: Sequence[Raw], request: Request) -> Started:
    names = list(dict.fromkeys(name for raw in first for name in _metrics(raw.value)))
    mapped = bool({"correct", "reward"} & request.mapping.keys())
    single = any(len(items(_column(raw.value, "model_response").get("text"))) == 1 for raw in first)
    if len(names) > 1 and single and not mapped:
        column = "metric" if "metric" in first[0].value else "__metric__"
        raise InvalidInput(
            f"{first[0].path}: several metrics ({', '.join(names)}), say which is the verdict: "
            f"--map correct={column}.{names[0]}"
        )
    fields = {
        "prompt_id": "doc.id", "sample_id": "position in model_response.text", "dataset": "doc.task_name",
        "completion_tokens": "model_response.output_tokens",
    }  # fmt: skip
    if len(names) == 1 and single:
        fields |= {"correct": f"metric.{names[0]}", "reward": f"metric.{names[0]}"}

    def convert(raw: Raw) -> Iterator[Values]:
        doc, response = _column(raw.value, "doc"), _column(raw.value, "model_response")
        prompt = (
            hashed_prompt(doc.get("query")) if doc.get("id") is None else {"prompt_id": doc["id"]}
        )
        written = items(response.get("text"))
        texts = items(response.get("text_post_processed")) or written
        tokens = items(response.get("output_tokens"))
        for position, text in enumerate(texts):
            values = prompt | present(sample_id=position, dataset=doc.get("task_name"), _text=text)
            if len(tokens) == len(texts) and isinstance(tokens[position], list):
                values["completion_tokens"] = len(tokens[position])
            if len(texts) == 1 and len(names) == 1:
                values |= verdict(_metrics(raw.value).get(names[0]))
            yield values

    return Started(convert, fields)


ADAPTER = Adapter("lighteval", _detect, _start)

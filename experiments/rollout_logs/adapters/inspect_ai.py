"""inspect_ai: .eval archives and .json logs; one row for each sample and epoch.

Values C, I, P and N are 1, 0, 1/2 and 0. A sample with several scorers, or a scorer with several values, needs `--filter SCORER` or
`--filter SCORER.KEY`. `target` is the reference. Long texts stand in a map of attachments.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import (
    choose,
    finish_reason,
    items,
    message_text,
    present,
    section,
    verdict,
)
from experiments.rollout_logs.records import NOT_AN_OBJECT, Excluded, Raw

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_FIELDS = {
    "prompt_id": "id", "sample_id": "epoch", "policy_id": "output.model", "answer": "scores.*.answer", "correct": "scores.*.value",
    "reward": "scores.*.value", "behavior_logp": "output.choices[0].logprobs", "completion_tokens": "model_usage.*.output_tokens",
    "prompt_tokens": "model_usage.*.input_tokens", "finish_reason": "output.choices[0].stop_reason, limit", "error": "error",
    "wall_s": "total_time",
}  # fmt: skip
_ATTACHMENT = "attachment://"


def _detect(raw: Raw) -> int:
    keys = raw.value.keys()
    if {"eval", "version", "status"} <= keys:
        return 6
    return 6 if {"id", "epoch", "input", "target"} <= keys else 0


def _split(raw: Raw) -> Iterator[Raw | Excluded]:
    if "eval" not in raw.value:
        yield raw
        return
    samples = items(raw.value.get("samples"))
    for number, sample in enumerate(samples, start=1):
        where = f"{raw.where}, sample {number}"
        if isinstance(sample, dict):
            yield Raw(cast(dict[str, Any], sample), where, raw.path)
        else:
            yield Excluded(NOT_AN_OBJECT, where)


def _names(row: Mapping[str, Any]) -> list[str]:
    """Scorers, and `scorer.key` where a scorer gives several values."""
    names: list[str] = []
    for scorer, score in section(row, "scores").items():
        value = score.get("value") if isinstance(score, Mapping) else score
        names += [f"{scorer}.{key}" for key in value] if isinstance(value, Mapping) else [scorer]
    return names


def _scored(row: Mapping[str, Any], chosen: str | None) -> Values:
    scores = section(row, "scores")
    for scorer, score in scores.items():
        whole: Mapping[str, Any] = score if isinstance(score, Mapping) else {"value": score}
        value = whole.get("value")
        if isinstance(value, Mapping):
            key = (chosen or "").removeprefix(f"{scorer}.")
            if chosen != f"{scorer}.{key}" or key not in value:
                continue
            value = value[key]
        elif scorer != chosen:
            continue
        grade = _GRADES.get(value) if isinstance(value, str) else value
        return verdict(grade) | present(answer=whole.get("answer"))
    return {}


def _resolved(text: Any, row: Mapping[str, Any]) -> Any:
    if isinstance(text, str) and text.startswith(_ATTACHMENT):
        return section(row, "attachments").get(text.removeprefix(_ATTACHMENT), text)
    return text


def _start(first: Sequence[Raw], request: Request) -> Started:
    names = list(dict.fromkeys(name for raw in first for name in _names(raw.value)))
    mapped = bool({"correct", "reward"} & request.mapping.keys())
    chosen = (
        None if mapped and request.filter_name is None else choose(first, names, request, "scorer")
    )
    fields = dict(_FIELDS)
    if chosen is None:
        for name in ("answer", "correct", "reward"):
            del fields[name]
    else:
        fields |= {"answer": f"scores.{chosen}.answer"}
        fields |= {name: f"scores.{chosen}.value" for name in ("correct", "reward")}

    def convert(raw: Raw) -> Iterator[Values]:
        row = raw.value
        output = section(row, "output")
        choice: Any = next(iter(items(output.get("choices"))), {})
        models = section(row, "model_usage")
        usage = (
            section(models, next(iter(models))) if len(models) == 1 else section(output, "usage")
        )
        logps = items(section(choice, "logprobs").get("content"))
        error = row.get("error")
        values = present(
            prompt_id=row["id"],
            sample_id=row["epoch"],
            policy_id=output.get("model"),
            completion_tokens=usage.get("output_tokens"),
            prompt_tokens=usage.get("input_tokens"),
            finish_reason=finish_reason(choice.get("stop_reason"), bool(row.get("limit"))),
            error=section(row, "error").get("message", str(error)) if error else None,
            wall_s=row.get("total_time"),
            behavior_logp_tokens=[token.get("logprob") for token in logps] or None,
            _text=_resolved(message_text(choice.get("message")), row),
        )
        values |= _scored(row, chosen)
        if "answer" in values:
            values["answer"] = _resolved(values["answer"], row)
        yield values

    return Started(convert, fields)


ADAPTER = Adapter("inspect", _detect, _start, _split, takes_filter=True)

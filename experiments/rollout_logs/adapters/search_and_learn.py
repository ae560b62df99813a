r"""search-and-learn: *_completions.jsonl, all completions of a problem in one row; the answer is what `\boxed{}` holds last.

`agg_scores` is the search verifier's; `scores` has one number a step and needs `--map score=scores.last` or another reduction.
Beams are written as often as the search kept them: equal rows are no independent samples.
"""

from collections.abc import Iterator, Sequence

from experiments.rollout_logs.adapters.base import Adapter, Request, Started, Values
from experiments.rollout_logs.adapters.common import hashed_prompt, items, present
from experiments.rollout_logs.records import Excluded, Raw

UNEQUAL = "lists of unequal length"


def _detect(raw: Raw) -> int:
    if not isinstance(raw.value.get("completions"), list):
        return 0
    return 3 + sum(name in raw.value for name in ("scores", "agg_scores", "completion_tokens"))


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{}` of a text holds.

    Args:
        text: a completion.

    Returns:
        The text between its braces, or None where there is none or it is cut.
    """
    start = text.rfind(r"\boxed{")
    depth = 0
    for position in range(start + 6, len(text)) if start >= 0 else ():
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return text[start + 7 : position]
    return None


def _start(first: Sequence[Raw], request: Request) -> Started:
    seen = first[0].value.keys()
    fields = {
        "prompt_id": "unique_id" if "unique_id" in seen else "sha256 of problem",
        "sample_id": "position in completions",
        "answer": "last \\boxed{} of the completion",
    }
    lists = {
        name: source
        for name, source in (("score", "agg_scores"), ("completion_tokens", "completion_tokens"))
        if source in seen
    }

    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        row = raw.value
        completions = items(row["completions"])
        columns = {name: row.get(source) for name, source in lists.items()}
        if any(
            column is not None and len(items(column)) != len(completions)
            for column in columns.values()
        ):
            yield Excluded(UNEQUAL, raw.where)
            return
        identifier = row.get("unique_id")
        prompt = (
            hashed_prompt(row.get("problem")) if identifier is None else {"prompt_id": identifier}
        )
        for position, text in enumerate(completions):
            values = prompt | present(sample_id=position, _text=text)
            values["answer"] = boxed(text) if isinstance(text, str) else None
            for name, column in columns.items():
                if column is not None:
                    values[name] = column[position]
            yield values

    return Started(convert, {**fields, **lists})


ADAPTER = Adapter("search-and-learn", _detect, _start)

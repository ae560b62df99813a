"""Small logs and their analysis, for tests of `rolloutlab analyze`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.json_output import to_plain
from experiments.rollout_logs.document import to_document
from experiments.rollout_logs.engine import analyze_logs
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.reading import open_logs

Rows = Sequence[Mapping[str, Any]]
# Rows and options to the document of the command.
Run = Callable[..., dict[str, Any]]


def write_log(path: Path, rows: Rows) -> Path:
    """Rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def analyze(paths: Path | Sequence[Path], **options: Any) -> dict[str, Any]:
    """The document of the command; few resamples unless asked for."""
    files = [paths] if isinstance(paths, Path) else paths
    opened = open_logs([str(path) for path in files], "auto", {}, None, strict=False)
    asked: dict[str, Any] = {"num_resamples": 50, **options}
    analysis = analyze_logs(opened, AnalysisOptions(**asked))
    return to_plain(to_document(analysis))


def by_name(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Name -> statistic."""
    return {statistic["name"]: statistic for statistic in document["statistics"]}


def value(document: Mapping[str, Any], name: str) -> Any:
    """The value of a statistic."""
    return by_name(document)[name]["value"]


def code(document: Mapping[str, Any], name: str) -> Any:
    """The refusal of a statistic; a statistic has either a value or a refusal."""
    found = by_name(document)[name]
    assert (found["value"] is None) == (found["refusal"] is not None)
    assert (found["reason"] is None) == (found["refusal"] is None)
    return found["refusal"]


def warned(document: Mapping[str, Any]) -> dict[str, int]:
    """Code -> count of the first warning with it."""
    return {each["code"]: each["count"] for each in reversed(document["warnings"])}


def verdicts(*tasks: Iterable[Any], **common: Any) -> list[dict[str, Any]]:
    """A row for each verdict of each task."""
    return [
        {"prompt_id": f"task {place}", "sample_id": sample, "correct": bool(correct), **common}
        for place, task in enumerate(tasks)
        for sample, correct in enumerate(task)
    ]

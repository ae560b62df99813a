"""An analysis as the JSON of the command."""

from typing import Any

from experiments.rollout_logs.analysis import Analysis, Statistic


def to_document(analysis: Analysis) -> dict[str, Any]:
    """The keys that scripts rely on.

    Args:
        analysis: what was found.

    Returns:
        What `experiments.json_output` writes.
    """
    counts = analysis.counts
    least, most = counts.samples_per_prompt
    return {
        "inputs": list(analysis.inputs),
        "format": analysis.format,
        "field_map": dict(analysis.field_map),
        "missing_fields": list(analysis.absent),
        "options": dict(analysis.options),
        "counts": {**counts._asdict(), "samples_per_prompt": {"min": least, "max": most}},
        "statistics": [statistic_document(statistic) for statistic in analysis.statistics],
        "warnings": [
            {"code": warned.code, "message": warned.message, "count": warned.num_rows}
            for warned in analysis.warnings
        ],
    }


def statistic_document(statistic: Statistic) -> dict[str, Any]:
    """One statistic.

    Args:
        statistic: its record.

    Returns:
        Its keys.
    """
    samples = statistic.samples
    return {
        **statistic._asdict(),
        "samples": None if samples is None else {"min": samples[0], "max": samples[1]},
        "excluded": dict(statistic.excluded),
        "notes": list(statistic.notes),
    }

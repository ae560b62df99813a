"""R7 without a declaration: the medians that decide are exact."""

import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from experiments.rollout_logs.database import open_database
from experiments.rollout_logs.facts import gather_facts
from experiments.rollout_logs.reading import open_logs
from experiments.rollout_logs.staging import forget_rows, stage
from experiments.rollout_logs.task_rows import make_prompts

ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, -1.0, -0.15, -0.1, -0.0999, 0.0, 0.5]),
        st.sampled_from([None, 0, 49, 50, 51, 90]),
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=30)
@given(rows=ROWS)
def test_medians_are_exact_and_only_where_they_speak(
    rows: list[tuple[float | None, int | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("like")
    log = folder / "log.jsonl"
    found = []
    for logp, tokens in rows:
        row = {"prompt_id": "p", "behavior_logp": logp, "completion_tokens": tokens}
        found.append(json.dumps({name: value for name, value in row.items() if value is not None}))
    log.write_text("\n".join(found) + "\n")
    known = [(a, n) for a, n in rows if a is not None and a <= 0 and n]
    expected = None
    if known:
        per_token = np.array([a / n for a, n in known])
        lengths = np.array([n for _, n in known])
        middle = (len(known) - 1) // 2
        # More than half beyond both limits.
        if 2 * (per_token > -0.002).sum() > len(known) and 2 * (lengths >= 50).sum() > len(known):
            expected = (float(np.sort(per_token)[middle]), float(np.sort(lengths)[middle]))
    assert _facts(log, folder) == expected


def _facts(log: Path, folder: Path) -> tuple[float, float] | None:
    with open_database(folder) as connection:
        stage(connection, open_logs([str(log)], "native", {}, None, False), folder)
        make_prompts(connection)
        found = gather_facts(connection).like_means
        forget_rows(connection)
        return found

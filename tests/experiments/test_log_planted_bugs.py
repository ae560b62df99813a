"""What readers of logs owe, which right code keeps exactly and a planted bug does not."""

from typing import Any

import pytest

from experiments.rollout_logs.adapters import openai, verl
from experiments.rollout_logs.spark import Spark, lines_of
from tests.planted_bugs import log_readers as planted
from tests.planted_bugs.damage import log_readers as exact


@pytest.mark.parametrize(
    ("damage", "right", "twin"),
    [
        (exact.of_verdicts, verl.ADAPTER.start, planted.correct_guessed_from_score),
        (exact.of_failed_requests, openai.ADAPTER.start, planted.failed_requests_dropped),
        (
            exact.of_log_probabilities,
            openai.ADAPTER.start,
            planted.likelihoods_with_the_sign_of_a_loss,
        ),
    ],
)
def test_adapters(damage: Any, right: Any, twin: Any) -> None:
    assert damage(right) == 0 and damage(twin) > 0.2


@pytest.mark.parametrize(
    ("damage", "right", "twin"),
    [
        (exact.of_parts, lines_of, planted.a_line_across_two_parts_read_twice),
        (exact.of_parts, lines_of, planted.a_line_across_two_parts_read_by_none),
        (exact.of_merging, Spark.in_order, planted.last_round_of_workers_lost),
        (exact.of_merging, Spark.in_order, planted.first_chunk_of_a_round_merged_twice),
    ],
)
def test_parts_of_a_log(damage: Any, right: Any, twin: Any) -> None:
    """Without Java: what workers read and what comes back from them is the same, once each."""
    assert damage(right) == 0 and damage(twin) > 0.1

"""How logs of rollouts are read: what the catalogue lists."""

from experiments.rollout_logs.adapters import openai, verl
from experiments.rollout_logs.spark import Spark, lines_of
from tests.planted_bugs import log_readers as planted
from tests.planted_bugs.damage import log_readers as exact
from tests.planted_bugs.defect import RELATIVE_BIAS, SHARE, Defect

HOME = "tests/experiments/test_log_planted_bugs.py"
ADAPTERS, PARTS = f"{HOME}::test_adapters", f"{HOME}::test_parts_of_a_log"

DEFECTS = (
    Defect(
        "verdict guessed from a score",
        planted.correct_guessed_from_score,
        verl.ADAPTER.start,
        exact.of_verdicts,
        1.0,
        SHARE,
        "four rows of verl with a score and no verdict",
        ADAPTERS,
    ),
    Defect(
        "failed requests dropped",
        planted.failed_requests_dropped,
        openai.ADAPTER.start,
        exact.of_failed_requests,
        0.25,
        SHARE,
        "three requests answered, one failed",
        ADAPTERS,
    ),
    Defect(
        "log probabilities with the sign of a loss",
        planted.likelihoods_with_the_sign_of_a_loss,
        openai.ADAPTER.start,
        exact.of_log_probabilities,
        2.0,
        RELATIVE_BIAS,
        "two tokens of probabilities 1/2 and 1/4",
        ADAPTERS,
    ),
    Defect(
        "a line across two parts read twice",
        planted.a_line_across_two_parts_read_twice,
        lines_of,
        exact.of_parts,
        0.625,
        SHARE,
        "eight lines in parts of 25 bytes",
        PARTS,
    ),
    Defect(
        "a line across two parts read by none",
        planted.a_line_across_two_parts_read_by_none,
        lines_of,
        exact.of_parts,
        0.625,
        SHARE,
        "eight lines in parts of 25 bytes",
        PARTS,
    ),
    Defect(
        "a part of the tasks not merged",
        planted.last_round_of_workers_lost,
        Spark.in_order,
        exact.of_merging,
        0.2,
        SHARE,
        "five chunks of tasks on two workers",
        PARTS,
    ),
    Defect(
        "a part of the tasks merged twice",
        planted.first_chunk_of_a_round_merged_twice,
        Spark.in_order,
        exact.of_merging,
        0.6,
        SHARE,
        "five chunks of tasks on two workers",
        PARTS,
    ),
)

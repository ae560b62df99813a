"""A rollout log of any length, as a trainer would leave it: JSON lines, 16 samples a task, made by the database in seconds."""

from pathlib import Path

import duckdb

SAMPLES = 16

# The columns that a reader has to give types to, as DuckDB names them.
COLUMNS = {
    "prompt_id": "VARCHAR",
    "sample_id": "BIGINT",
    "answer": "VARCHAR",
    "correct": "BOOLEAN",
    "score": "DOUBLE",
    "base_logp": "DOUBLE",
    "behavior_logp": "DOUBLE",
    "target_logp": "DOUBLE",
    "completion_tokens": "BIGINT",
    "finish_reason": "VARCHAR",
}


def write_log(path: Path, num_rows: int) -> None:
    """Write a log; the same one for the same number of rows.

    Tasks are of any difficulty; one answer of nine is right; scores lean to right answers; log probabilities of three policies agree to a few nats.

    Args:
        path: of the file.
        num_rows: a multiple of 16.
    """

    def number(role: int) -> str:
        """Uniform in [0, 1), by the row's number."""
        return f"(hash(i * 8 + {role}) % 1000003) / 1000003.0"

    difficulty = f"pow((hash((i // {SAMPLES}) * 8 + 7) % 1000003) / 1000003.0, 2)"
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (
            SELECT 'task-' || (i // {SAMPLES}) AS prompt_id, i % {SAMPLES} AS sample_id, 'answer ' || a AS answer, a = 0 AS correct,
                0.3 * {number(2)} + CASE WHEN a = 0 THEN 0.5 ELSE 0.2 END AS score, -b AS base_logp, -b - 0.3 * {number(4)} AS behavior_logp,
                -b - 0.3 * {number(5)} AS target_logp, 20 + CAST(floor(900 * {number(6)}) AS BIGINT) AS completion_tokens,
                CASE WHEN {number(6)} > 0.98 THEN 'length' ELSE 'eos' END AS finish_reason
            FROM (SELECT i, 5 + 40 * {number(3)} AS b,
                    CASE WHEN {number(0)} < {difficulty} THEN 0 ELSE 1 + CAST(floor(8 * pow({number(1)}, 2)) AS BIGINT) END AS a
                FROM range({num_rows}) rows(i))) TO '{path}' (FORMAT json)"""
        )

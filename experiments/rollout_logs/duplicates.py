"""One (prompt, sample) twice: identical rows beyond the first are left out, different ones are refused."""

from collections.abc import Mapping

import duckdb

from experiments.rollout_logs.database import all_rows, one_number
from experiments.rollout_logs.narrow_columns import NARROW_COLUMNS
from theory.errors import InvalidInput

_KEY = "prompt, sample_number, sample_text"
_SAME = [column.name for column in NARROW_COLUMNS if column.name != "step"]  # graded again later
_CONTENT = f"struct_pack({', '.join(f'{name} := {name}' for name in _SAME)})::VARCHAR"
# Sample numbers below 64 are told apart by a bit each, a prompt at a time; other prompts with sample ids are looked at closely.
_DOUBTFUL_PROMPTS = (
    "SELECT prompt FROM staged GROUP BY prompt HAVING count(sample_text) > 0 OR min(sample_number) < 0 OR max(sample_number) > 63 OR "
    "count(sample_number) > bit_count(bit_or(CASE WHEN sample_number BETWEEN 0 AND 63 THEN 1::UBIGINT << sample_number::UBIGINT END))"
)
# Of each, because NULL is IN nothing: a sample has a number or a text.
_HASHES = "hash(prompt), hash(sample_number), hash(sample_text)"
_HAS_SAMPLE = "(sample_number IS NOT NULL OR sample_text IS NOT NULL)"


def has_copies(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether two rows may be of one (prompt, sample).

    Args:
        connection: with the table `staged`.

    Returns:
        False where none are.
    """
    if not one_number(connection, f"SELECT count(*) FROM ({_DOUBTFUL_PROMPTS})"):
        return False
    # Hashes first: they make narrow groups. Only the suspects are then grouped by what they are.
    suspects = one_number(
        connection,
        f"SELECT count(*) FROM (SELECT 1 FROM staged WHERE {_HAS_SAMPLE} "
        f"GROUP BY {_HASHES} HAVING count(*) > 1)",
    )
    return suspects > 0


def drop_copies(connection: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, str], int]:
    """Leave out identical rows of one (prompt, sample) beyond the first; rows without a sample id are never duplicates.

    Args:
        connection: with the table `staged`, of all fields.

    Returns:
        (prompt, sample) -> rows left out.

    Raises:
        InvalidInput: two different rows of one (prompt, sample), which it names.
    """
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE copies AS SELECT row, prompt, "
        f"row_number() OVER (PARTITION BY {_KEY} ORDER BY row) AS place, "
        f"min(content) OVER (PARTITION BY {_KEY}) <> max(content) OVER (PARTITION BY {_KEY}) AS differ, "
        "coalesce(sample_number::VARCHAR, sample_text) AS sample "
        f"FROM (SELECT md5({_CONTENT}) AS content, * FROM staged "
        f"WHERE {_HAS_SAMPLE} AND ({_HASHES}) IN "
        f"(SELECT {_HASHES} FROM staged WHERE {_HAS_SAMPLE} "
        "GROUP BY ALL HAVING count(*) > 1))"
    )
    for prompt, sample, times in all_rows(
        connection,
        "SELECT prompt, sample, count(*) FROM copies WHERE differ GROUP BY ALL ORDER BY prompt, sample LIMIT 1",
    ):
        raise InvalidInput(
            f"prompt '{prompt}', sample '{sample}': {times} different rows, give each row a sample_id of its own, drop the wrong ones, "
            "or analyze the logs of different runs one at a time"
        )
    found = all_rows(
        connection,
        "SELECT prompt, sample, count(*) FROM copies WHERE place > 1 GROUP BY ALL ORDER BY prompt, sample",
    )
    connection.execute(
        "DELETE FROM row_table WHERE rowid IN (SELECT row FROM copies WHERE place > 1)"
    )
    return {(str(prompt), str(sample)): int(count) for prompt, sample, count in found}

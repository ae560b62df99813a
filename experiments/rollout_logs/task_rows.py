"""The staged rows as arrays: whole tasks at a time, in the order of prompt and sample, whatever the order and the split of the files.

Only the columns that some row has are carried. What is missing is NaN in a column of numbers, 0 in a column of hashes and -1 in a column of flags.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from experiments.rollout_logs.database import one_number

# Rows that are turned into arrays at a time.
BATCH = 1 << 19

_NUMBERS = [
    "reward",
    "score",
    "base_logp",
    "behavior_logp",
    "target_logp",
    "log_weight",
    "completion_tokens",
    "wall_s",
    "model_calls",
    "verifier_calls",
    "tool_calls",
    "env_steps",
    "step",
    "version_number",
]
_HASHES = ("answer_code", "trajectory")
_FLAGS = ("correct", "truncated", "failed")


class TaskRows(NamedTuple):
    """The rows of some whole tasks.

    Attributes:
        codes: [n] of the tasks: their rank among the prompts.
        offsets: [n + 1] the rows of task i are offsets[i] up to offsets[i + 1].
        columns: name -> [m] one value a row; absent where no row has one.
    """

    codes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.generic]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """[n] rows of each task."""
        return np.diff(self.offsets)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers.

        Args:
            name: of the column.

        Returns:
            [m]; NaN where a row has none.
        """
        found = self.columns.get(name)
        size = int(self.offsets[-1])
        return np.full(size, np.nan) if found is None else found.astype(np.float64, copy=False)


def make_prompts(connection: duckdb.DuckDBPyConnection) -> int:
    """Fill the table `prompts`: every prompt with its number of rows and its rank by text.

    Args:
        connection: with the table `staged`.

    Returns:
        How many there are.
    """
    connection.execute(
        "CREATE OR REPLACE TABLE prompts AS SELECT prompt, number, (row_number() OVER (ORDER BY prompt) - 1)::BIGINT AS code "
        "FROM (SELECT prompt, count(*) AS number FROM staged GROUP BY prompt)"
    )
    return one_number(connection, "SELECT count(*) FROM prompts")


def keep_prompts(connection: duckdb.DuckDBPyConnection, prompts: Collection[str]) -> None:
    """Leave out the rows of all other prompts.

    Args:
        connection: with the table `row_table`.
        prompts: that stay.
    """
    kept = pa.table({"prompt": pa.array(list(prompts), pa.string())})
    connection.register("kept_prompts", kept)
    connection.execute(
        "DELETE FROM row_table WHERE prompt NOT IN (SELECT prompt FROM kept_prompts)"
    )
    connection.unregister("kept_prompts")


def task_rows(
    connection: duckdb.DuckDBPyConnection, present: Mapping[str, int], batch: int = BATCH
) -> Iterator[TaskRows]:
    """Stream the staged rows by task.

    Args:
        connection: with `staged` and `prompts`; nothing else may use it meanwhile.
        present: column -> rows that have it; columns of no row are left out.
        batch: rows at a time, more where a task has more.

    Yields:
        Whole tasks in the order of `prompts`.
    """
    columns = [name for name in (*_NUMBERS, *_HASHES, *_FLAGS) if present.get(name)]
    order = _order(present, columns)
    query = connection.sql(
        f"SELECT code::INTEGER AS code, {', '.join(map(_narrow, columns)) or '1 AS one'} "
        f"FROM staged JOIN prompts USING (prompt) ORDER BY {order}"
    )
    parts: list[dict[str, NDArray[np.generic]]] = []
    with query.to_arrow_reader(batch_size=batch) as reader:
        for arrow in reader:
            # The database hands over fewer rows at a time than were asked for; many at once are faster, equal tasks being computed once.
            parts.append(_arrays(arrow))
            if sum(part["code"].size for part in parts) < batch:
                continue
            arrays = _join(parts)
            code = arrays["code"]
            # The last task may go on in the next batch.
            end = int(np.searchsorted(code, code[-1]))
            if end:
                yield _cut({name: array[:end] for name, array in arrays.items()})
            parts = [{name: array[end:] for name, array in arrays.items()}]
    if any(part["code"].size for part in parts):
        yield _cut(_join(parts))


def _order(present: Mapping[str, int], columns: list[str]) -> str:
    """By prompt and sample; rows without a sample id by their values, so that their order in the file does not matter."""
    keys = [name for name in ("sample_number", "sample_text") if present.get(name)]
    named = sum(present.get(name, 0) for name in keys)
    if named < present["rows"]:
        keys += columns
    return ", ".join(["code", *keys])


def _narrow(name: str) -> str:
    return f"{name}::DOUBLE AS {name}" if name in _NUMBERS else name


def _arrays(batch: pa.RecordBatch) -> dict[str, NDArray[np.generic]]:
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return {name: _filled(name, column) for name, column in columns}


def _filled(name: str, column: pa.Array) -> NDArray[np.generic]:
    """Filled here, because the database sorts what is missing faster."""
    filling = {**dict.fromkeys(_HASHES, 0), **dict.fromkeys(_FLAGS, -1)}.get(name)
    filled = column if filling is None else column.fill_null(filling)
    return filled.to_numpy(zero_copy_only=False)


def _join(parts: list[dict[str, NDArray[np.generic]]]) -> dict[str, NDArray[np.generic]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _cut(arrays: Mapping[str, NDArray[np.generic]]) -> TaskRows:
    code = arrays["code"].astype(np.int64)
    starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
    offsets = np.concatenate([starts, [code.size]]).astype(np.int64)
    return TaskRows(code[starts], offsets, {k: v for k, v in arrays.items() if k != "code"})

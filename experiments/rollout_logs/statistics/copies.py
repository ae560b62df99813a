"""Equal texts of one prompt under different sample ids: how many, and how many independent draws would hold."""

from collections.abc import Mapping

import numpy as np

from experiments.rollout_logs.analysis import Warned
from experiments.rollout_logs.options import AnalysisOptions
from experiments.rollout_logs.refusals import warn
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Log, Success, usable_logp
from theory.estimators.duplicates import DuplicateSums, duplicate_sums, duplicate_test
from theory.estimators.ragged import keep_rows

_NAMES = [f"copies_{name}" for name in DuplicateSums._fields]


def columns(rows: TaskRows, success: Success, options: AnalysisOptions) -> Mapping[str, Column]:
    """Equal pairs of each task, where texts and the law that drew them are known.

    Args:
        rows: of some tasks.
        success: unused.
        options: unused.

    Returns:
        The fields of `DuplicateSums` after "copies_".
    """
    del success, options
    if not {"trajectory", "behavior_logp"} <= rows.columns.keys():
        return {}
    codes, logps = rows.columns["trajectory"], usable_logp(rows, "behavior_logp")
    known = (codes != 0) & np.isfinite(logps)
    sums = duplicate_sums(codes[known].view(np.int64), logps[known], keep_rows(rows.offsets, known))
    return dict(zip(_NAMES, sums, strict=True))


def copies(log: Log) -> list[Warned]:
    """R2 where texts stand there under several sample ids.

    Args:
        log: its table.

    Returns:
        The warning, or none.
    """
    table = log.table
    if "trajectories" not in table:
        return []
    repeated = int(table["with_trajectory"].sum() - table["trajectories"].sum())
    if not repeated:
        return []
    words = (
        f"{repeated} rows have the text of another sample of their prompt under an id of their own, as short answers do by chance and long ones "
        "do not"
    )
    if "copies_pairs" in table and "mean" not in log.facts.distinct.get("logp_reduction", ()):
        found = duplicate_test(DuplicateSums(*(table[name] for name in _NAMES)))
        words += f" ({found.pairs} equal pairs, about {found.expected:.3g} among independent draws by behavior_logp, p = {found.p_value:.2g})"
    return [warn("R2", words, repeated)]

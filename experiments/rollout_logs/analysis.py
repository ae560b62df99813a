"""What `rolloutlab analyze` found: the records that the statistics fill and that the table, the JSON and the page are drawn from.

Nothing here is computed. A number that would be dishonest is None, with the code of its refusal and the reason in plain words.
"""

from collections.abc import Mapping
from typing import NamedTuple

Identifier = str | int


class IntervalRecord(NamedTuple):
    """An interval over tasks.

    Attributes:
        low: lower end, in the unit of the statistic.
        high: upper end.
        level: nominal coverage.
        method: how it was made, such as "percentile bootstrap over tasks".
    """

    low: float
    high: float
    level: float
    method: str


class PolicyRecord(NamedTuple):
    """Whose rollouts a number is of.

    Attributes:
        collected: the policies that drew the rows, with their versions.
        evaluated: the policy that the number is about; the collecting one unless the rows are reweighted.
        lag: versions between the oldest and the newest row, or None where versions are no numbers or absent.
    """

    collected: tuple[str, ...]
    evaluated: str | None
    lag: int | None


class Statistic(NamedTuple):
    """One number, or the reason why there is none.

    Attributes:
        name: as contract.md names it, such as "pass@4".
        value: the number, or None where refused.
        refusal: code R0 ... R20, or None.
        reason: the refusal in plain words, with the option that would make the number honest.
        estimator: how the number was made.
        unit: what is resampled and what the number counts.
        tasks: tasks behind it.
        samples: least and most samples of a task behind it.
        excluded: reason -> rows left out of this number.
        ties: what was done with ties, or None where none can be.
        missing: what was done with absent values, with how many.
        nan: what was done with values that are not numbers, with how many.
        seed: of the resampling, or None.
        interval: over tasks, or None.
        policy: whose rollouts.
        notes: one line each.
    """

    name: str
    value: float | None
    refusal: str | None = None
    reason: str | None = None
    estimator: str = ""
    unit: str = "task"
    tasks: int = 0
    samples: tuple[int, int] | None = None
    excluded: Mapping[str, int] = {}
    ties: str | None = None
    missing: str | None = None
    nan: str | None = None
    seed: int | None = None
    interval: IntervalRecord | None = None
    policy: PolicyRecord | None = None
    notes: tuple[str, ...] = ()


class Warned(NamedTuple):
    """Something the reader of the numbers must know.

    Attributes:
        code: R0 ... R20, "unreadable", or another short word.
        message: one line in plain words, with the option that would mend it.
        num_rows: rows, prompts or lines concerned ("count" in the JSON).
    """

    code: str
    message: str
    num_rows: int


class Counts(NamedTuple):
    """Rows in = used + excluded.

    Attributes:
        rows: lines or records found.
        used: rows behind the statistics.
        excluded: reason -> rows.
        prompts: tasks.
        samples_per_prompt: least and most rows of a task.
        truncated: rows cut at the horizon.
        errors: rows with an error.
        duplicates: identical rows of one (prompt, sample) beyond the first.
        missing: field -> used rows without it.
    """

    rows: int
    used: int
    excluded: Mapping[str, int]
    prompts: int
    samples_per_prompt: tuple[int, int]
    truncated: int
    errors: int
    duplicates: int
    missing: Mapping[str, int]


class CurvePoint(NamedTuple):
    """One point of a curve over the number of samples.

    Attributes:
        k: samples.
        value: the statistic, or None where refused.
        low: lower end of its interval, or None.
        high: upper end, or None.
    """

    k: int
    value: float | None
    low: float | None
    high: float | None


class Curve(NamedTuple):
    """A statistic over the number of samples, on one set of tasks.

    Attributes:
        name: "pass", "majority", "best_of_n", ...
        points: in the order of k.
        tasks: how many tasks stand behind every point.
    """

    name: str
    points: tuple[CurvePoint, ...]
    tasks: int


class ReliabilityBin(NamedTuple):
    """One bin of the reliability table: equal mass, by score.

    Attributes:
        low: least score in it.
        high: greatest score in it.
        num_rows: rows in it.
        mean_score: of its rows.
        accuracy: share of them that is correct.
    """

    low: float
    high: float
    num_rows: int
    mean_score: float
    accuracy: float


class HistogramBin(NamedTuple):
    """Completion lengths from `low` up to but not including `high`, in tokens.

    Attributes:
        low: included.
        high: excluded.
        num_rows: rows in it.
        truncated: of them, rows cut at the horizon.
        accuracy: share correct, or None where nothing is known.
    """

    low: float
    high: float
    num_rows: int
    truncated: int
    accuracy: float | None


class TaskSummary(NamedTuple):
    """One task of the log.

    Attributes:
        prompt_id: its name.
        samples: rows used.
        correct: rows that are correct, or None where unknown.
        accuracy: mean correctness, or None.
        distinct_answers: different canonical answers, or None.
        top_answer: the most frequent one; the first of them by text where several tie.
        top_share: its share of the rows with an answer.
        mean_score: or None.
        mean_reward: or None.
        mean_tokens: or None.
        truncated: rows cut at the horizon.
        errors: rows with an error.
        ess: effective sample size of its weights, or None.
        codes: codes of the refusals and warnings that concern it.
    """

    prompt_id: Identifier
    samples: int
    correct: float | None
    accuracy: float | None
    distinct_answers: int | None
    top_answer: str | None
    top_share: float | None
    mean_score: float | None
    mean_reward: float | None
    mean_tokens: float | None
    truncated: int
    errors: int
    ess: float | None
    codes: tuple[str, ...] = ()


class SampleView(NamedTuple):
    """One row, to be looked at.

    Attributes:
        prompt_id: its task.
        sample_id: its name, or None.
        answer: canonical, or None.
        answer_raw: as written, or None.
        correct: verdict in [0, 1], or None.
        reward: or None.
        score: or None.
        tokens: completion length, or None.
        finish_reason: or None.
        error: or None.
        text: the completion or its beginning, or None where the log has none.
        text_length: characters of the whole completion, or None where `text` is whole.
    """

    prompt_id: Identifier
    sample_id: Identifier | None
    answer: str | None
    answer_raw: str | None
    correct: float | None
    reward: float | None
    score: float | None
    tokens: int | None
    finish_reason: str | None
    error: str | None
    text: str | None
    text_length: int | None = None


class Analysis(NamedTuple):
    """Everything about one set of logs.

    Attributes:
        inputs: files in the order read.
        format: of their rows.
        field_map: canonical field -> field of the log.
        absent: canonical fields that the log never has.
        counts: rows in and rows used.
        statistics: in the order of contract.md.
        warnings: in the order of their codes.
        curves: over k, for the picture.
        reliability: bins, empty where scores are no probabilities.
        lengths: histogram of completion lengths.
        tasks: every task, or the first of many.
        samples: some rows of some tasks.
        options: name -> value of the options that shaped the numbers, the versions of rules included.
    """

    inputs: tuple[str, ...]
    format: str
    field_map: Mapping[str, str]
    absent: tuple[str, ...]
    counts: Counts
    statistics: tuple[Statistic, ...]
    warnings: tuple[Warned, ...]
    curves: tuple[Curve, ...] = ()
    reliability: tuple[ReliabilityBin, ...] = ()
    lengths: tuple[HistogramBin, ...] = ()
    tasks: tuple[TaskSummary, ...] = ()
    samples: tuple[SampleView, ...] = ()
    options: Mapping[str, str] = {}

"""The table of tasks, which sorts and filters, and some rows of some tasks, to be looked at."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.rollout_logs.analysis import Identifier, SampleView, TaskSummary
from experiments.rollout_logs.page.markup import (
    Child,
    Markup,
    element,
    fragment,
    from_log,
    lines_from_log,
)
from experiments.rollout_logs.page.tables import behind, pairs, scrolling
from experiments.rollout_logs.visible_text import ANSWER_LIMIT, LINE_LIMIT, NAME_LIMIT, TEXT_LIMIT
from experiments.rollout_logs.wording import Number, number, plural

MOST_TASKS = 1_000
"""Tasks drawn in the table."""

MOST_OPENED = 100
"""Tasks whose samples are drawn."""

MOST_SAMPLES = 8
"""Samples drawn of each of them."""

Value = Number | str | None


class Column(NamedTuple):
    """A column of the table of tasks.

    Attributes:
        heading: of the column.
        value: of a task; a number, a text of the log, or None.
        nothing: a column in which every task has one of these is left out.
    """

    heading: str
    value: Callable[[TaskSummary], Value]
    nothing: tuple[Value, ...] = (None,)


COLUMNS = (
    Column("samples", lambda task: task.samples),
    Column("correct", lambda task: task.correct),
    Column("accuracy", lambda task: task.accuracy),
    Column("different answers", lambda task: task.distinct_answers),
    Column("top answer", lambda task: task.top_answer),
    Column("its share", lambda task: task.top_share),
    Column("mean score", lambda task: task.mean_score),
    Column("mean reward", lambda task: task.mean_reward),
    Column("mean tokens", lambda task: task.mean_tokens),
    Column("cut", lambda task: task.truncated, (None, 0)),
    Column("errors", lambda task: task.errors, (None, 0)),
    Column("ESS", lambda task: task.ess),
)


class OpenedTask(NamedTuple):
    """A task whose rows can be looked at.

    Attributes:
        prompt_id: its name.
        anchor: id of its place in the page.
        samples: of it in the analysis.
        num_samples: of it in the log.
    """

    prompt_id: Identifier
    anchor: str
    samples: tuple[SampleView, ...]
    num_samples: int


def opened_tasks(
    samples: Sequence[SampleView], tasks: Sequence[TaskSummary]
) -> dict[Identifier, OpenedTask]:
    """Rows by task.

    Args:
        samples: of an analysis.
        tasks: of it, with all their samples counted.

    Returns:
        The first tasks in the order in which they appear.
    """
    counted = {task.prompt_id: task.samples for task in tasks}
    found: dict[Identifier, list[SampleView]] = {}
    for sample in samples:
        found.setdefault(sample.prompt_id, []).append(sample)
    return {
        prompt_id: OpenedTask(
            prompt_id, f"task-{place}", tuple(rows), counted.get(prompt_id, len(rows))
        )
        for place, (prompt_id, rows) in enumerate(list(found.items())[:MOST_OPENED], 1)
    }


def tasks_table(
    tasks: Sequence[TaskSummary], num_tasks: int, opened: Mapping[Identifier, OpenedTask]
) -> Markup:
    """One row a task, with the means to sort and filter.

    Args:
        tasks: of an analysis.
        num_tasks: of the log.
        opened: tasks whose rows can be looked at.

    Returns:
        The controls, the table, and how many tasks are not shown.
    """
    shown = tasks[:MOST_TASKS]
    columns = [
        column
        for column in COLUMNS
        if any(column.value(task) not in column.nothing for task in shown)
    ]
    gone = [column.heading for column in COLUMNS if column not in columns]
    head = [
        element("th", heading, scope="col", class_=None if heading == "top answer" else "num")
        for heading in (column.heading for column in columns)
    ]
    caption = f"{plural(len(shown), 'task')} of {num_tasks:,}"
    if num_tasks > len(shown):
        caption += f"; {plural(num_tasks - len(shown), 'task')} not shown"
    if gone:
        caption += f". No task has: {', '.join(gone)}"
    body = [_task_row(task, columns, opened.get(task.prompt_id)) for task in shown]
    grid = element(
        "table",
        element("caption", caption, id="tasks-caption"),
        element(
            "thead",
            element(
                "tr",
                element("th", "task", scope="col"),
                *head,
                element("th", "warnings", scope="col"),
            ),
        ),
        element("tbody", *body),
        id="tasks-table",
    )
    controls = element(
        "form",
        element("label", "Tasks that contain ", element("input", type="search", id="filter-text")),
        element(
            "label", element("input", type="checkbox", id="filter-warned"), " only with warnings"
        ),
        element("output", id="filter-found", for_="filter-text filter-warned"),
        id="filter",
        hidden=True,
    )
    return fragment(controls, scrolling("tasks-caption", grid))


def drill_down(opened: Mapping[Identifier, OpenedTask], num_tasks: int) -> Markup:
    """Rows of tasks, closed until they are asked for.

    Args:
        opened: made by `opened_tasks`.
        num_tasks: of the log.

    Returns:
        One closed element a task, and how many tasks have none.
    """
    less = num_tasks - len(opened)
    words = (
        f"At most {MOST_SAMPLES} samples of a task, of {plural(len(opened), 'task')}"
        + (f"; samples of {plural(less, 'other task')} are not in this page" if less > 0 else "")
        + ". Characters that cannot be seen are shown by their code, such as [U+202E]."
    )
    return fragment(element("p", words, class_="soft"), *map(_opened, opened.values()))


def _task_row(task: TaskSummary, columns: Sequence[Column], opened: OpenedTask | None) -> Markup:
    name = from_log(str(task.prompt_id), NAME_LIMIT)
    if opened is not None:
        name = element("a", name, href=f"#{opened.anchor}")
    codes = [
        fragment(" " if place else None, from_log(x, NAME_LIMIT))
        for place, x in enumerate(task.codes[:20])
    ]
    return element(
        "tr",
        element("th", name, scope="row"),
        *(_task_cell(column.value(task)) for column in columns),
        element("td", *codes),
        data_warned=bool(task.codes),
    )


def _task_cell(value: Value) -> Markup:
    if isinstance(value, str):
        return element("td", from_log(value, NAME_LIMIT))
    if value is None:
        return element("td", "-", class_="num")
    return element("td", number(value), class_="num", data_sort=repr(float(value)))


def _opened(task: OpenedTask) -> Markup:
    shown = task.samples[:MOST_SAMPLES]
    less = task.num_samples - len(shown)
    title = fragment(
        "Task ", from_log(str(task.prompt_id), NAME_LIMIT), f", {plural(len(shown), 'sample')}"
    )
    more = element("p", f"{plural(less, 'more sample')} not shown", class_="soft") if less else None
    back = element("p", element("a", "Back to the table of tasks", href="#tasks"))
    content = behind(title, *map(_sample, shown), more, back)
    return element("div", content, id=task.anchor, class_="task")


def _sample(sample: SampleView) -> Markup:
    entries: list[tuple[Child, Child]] = []
    for term, text in (("answer", sample.answer), ("as written", sample.answer_raw)):
        if text is not None:
            entries.append((term, lines_from_log(text, ANSWER_LIMIT)))
    for term, value in (
        ("correct", sample.correct),
        ("reward", sample.reward),
        ("score", sample.score),
        ("tokens", sample.tokens),
    ):
        if value is not None:
            entries.append((term, number(value)))
    if sample.finish_reason is not None:
        entries.append(("ended by", from_log(sample.finish_reason, NAME_LIMIT)))
    if sample.error is not None:
        entries.append(("error", from_log(sample.error, LINE_LIMIT)))
    if sample.text is not None:
        entries.append(("completion", lines_from_log(sample.text, TEXT_LIMIT, sample.text_length)))
    name = "Sample"
    heading = (
        element("h4", name)
        if sample.sample_id is None
        else element("h4", f"{name} ", from_log(str(sample.sample_id), NAME_LIMIT))
    )
    return element("article", heading, pairs(entries))

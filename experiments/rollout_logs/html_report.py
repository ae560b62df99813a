"""An analysis as one page that needs nothing else: no network, no framework, and no text of a log that could become code.

The page is whole without its script, which adds sorting, filtering and the choice of theme. Its policy allows no source of anything but its own
style sheet and script, by their hashes. The same analysis gives the same bytes.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from experiments.rollout_logs.analysis import Analysis, Statistic
from experiments.rollout_logs.page import summary, tasks
from experiments.rollout_logs.page.markup import Child, Markup, element, fragment
from experiments.rollout_logs.page.pictures import picture_of
from experiments.rollout_logs.page.statistics import statistics_tables
from experiments.rollout_logs.page.tables import section
from experiments.rollout_logs.visible_text import NAME_LIMIT, on_one_line
from experiments.rollout_logs.wording import LEADS, OTHER, SECTIONS, in_sections


def render_html(analysis: Analysis) -> str:
    """The page of an analysis.

    At most `tasks.MOST_TASKS` tasks are listed and samples of `tasks.MOST_OPENED` shown, `tasks.MOST_SAMPLES` of each, long text cut; the page says how
    much of everything it does not show.

    Args:
        analysis: of some logs; every text in it may be hostile.

    Returns:
        HTML in ASCII and whatever letters the log has; no lone surrogates, so that it can be encoded.
    """
    style, script = _packaged("style.css"), _packaged("script.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = _sections(analysis)
    names = [
        on_one_line(name.rpartition("/")[2] or name, NAME_LIMIT) for name in analysis.inputs[:3]
    ]
    more = len(analysis.inputs) - len(names)
    title = ", ".join(names) + (f" and {more:,} more" if more else "")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"Rollout log: {title}"),
        element("style", Markup(style)),
    )
    header = element(
        "header", element("h1", "Rollout log report"), element("p", element("bdi", title))
    )
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        header,
        _navigation(sections),
        element("main", *(section(name, heading, content) for name, heading, content in sections)),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en').html}\n"


def _sections(analysis: Analysis) -> list[tuple[str, str, Markup]]:
    opened = tasks.opened_tasks(analysis.samples, analysis.tasks)
    num_tasks = max(analysis.counts.prompts, len(analysis.tasks))
    found = [
        ("summary", "Summary", summary.summary(analysis)),
        ("refused", "Refused", summary.refused(analysis.statistics)),
        ("warnings", "Warnings", summary.warnings(analysis.warnings, analysis.statistics)),
        *_number_sections(analysis),
    ]
    if analysis.tasks:
        found.append(("tasks", "Tasks", tasks.tasks_table(analysis.tasks, num_tasks, opened)))
    if opened:
        found.append(("samples", "Samples", tasks.drill_down(opened, num_tasks)))
    return [*found, ("origin", "Log, fields and options", summary.origin(analysis))]


def _number_sections(analysis: Analysis) -> list[tuple[str, str, Markup]]:
    members = {group.title: group.statistics for group in in_sections(analysis.statistics)}
    found: list[tuple[str, str, Markup]] = []
    for place, title in enumerate([*(title for title, _ in SECTIONS), OTHER]):
        name = f"numbers-{place}"
        statistics = members.get(title, ())
        picture = picture_of(title, analysis)
        if statistics or picture:
            lead = element("p", LEADS[title]) if title in LEADS else None
            found.append((name, title, fragment(lead, picture, _table(name, title, statistics))))
    return found


def _table(name: str, title: str, statistics: Sequence[Statistic]) -> Child:
    return statistics_tables(f"{name}-caption", title, statistics) if statistics else None


def _navigation(sections: Sequence[tuple[str, str, Markup]]) -> Markup:
    links = [element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections]
    return element("nav", element("ul", *links), aria_label="Sections")


def _packaged(name: str) -> str:
    return (files("experiments.rollout_logs.page") / name).read_text(encoding="utf-8")


def _digest(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"

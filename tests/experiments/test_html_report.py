"""The page of an analysis, read back: well-formed, whole, bounded, closed to the outside, and deaf to what a log says."""

import base64
import hashlib
import itertools
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from experiments.rollout_logs.analysis import Analysis, Curve, CurvePoint, Warned
from experiments.rollout_logs.html_report import render_html
from experiments.rollout_logs.page.charts import coverage_chart
from experiments.rollout_logs.page.markup import element
from experiments.rollout_logs.page.tasks import MOST_OPENED, MOST_SAMPLES, MOST_TASKS
from experiments.rollout_logs.visible_text import on_one_line, shortened, visible
from experiments.rollout_logs.wording import compact, in_sections, number
from tests.experiments.analyses import analysis_of_text, full_analysis, sample, statistic, task
from tests.experiments.pages import Page

HOSTILE = (
    "<script>window.broken = 1</script>",
    "</script><script>window.broken = 1</script>",
    "</style><img src=x onerror='window.broken = 1'>",
    '" onmouseover="window.broken = 1',
    "' onfocus='window.broken = 1' autofocus='",
    "<!-- not a comment --><![CDATA[ nor this ]]>",
    "&lt;b&gt; &amp; &#60;b&#62; &copy",
    "</bdi></td></table></main></body></html>",
    "javascript:window.broken=1",
    "a\u202eb\u2066c\u200bd\ufeffe",
    "\x00\x07\x1b[31mred\x1b[0m\x85\u2028",
    "half \ud800 and \udfff",
    "one\r\ntwo\n\n\tthree",
    "\n\nline feeds first",
    "$\\frac{1}{0}$",
    "e\u0301\u0300\u0300\u0300 \U0001f469\u200d\U0001f52c \u05d0\u05d1",
)
CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


@pytest.fixture(name="page", scope="module")
def _page() -> Page:  # pyright: ignore[reportUnusedFunction]
    return Page(render_html(full_analysis()))


@pytest.fixture(name="plain", scope="module")
def _plain() -> list[tuple[str, tuple[str, ...]]]:  # pyright: ignore[reportUnusedFunction]
    """The elements of a page whose texts are harmless."""
    return Page(render_html(analysis_of_text("x"))).structure()


@settings(max_examples=15)
@given(
    st.text(st.characters(), min_size=1, max_size=20),
    st.sampled_from(["", "<i>", "</", "&", '"', "'>"]),
)
def test_text_of_a_log_makes_no_element(plain: list[Any], text: str, prefix: str) -> None:
    hostile = Page(render_html(analysis_of_text(prefix + text)))
    assert hostile.structure() == plain
    assert_texts_are(hostile, prefix + text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(plain: list[Any], text: str) -> None:
    source = render_html(analysis_of_text(text))
    assert not CONTROLS.search(source)
    page = Page(source)
    assert page.structure() == plain
    assert_texts_are(page, text)


def assert_texts_are(page: Page, text: str) -> None:
    """Every isolated text is the one given, and blocks keep their lines; the title names files without their folders."""
    blocks = [one for one in page.named("bdi") if one.parents[-1] == "pre"]
    assert blocks and all(one.text == visible(text) for one in blocks)
    wanted = visible(text).replace("\n", "[U+000A]").replace("\t", "[U+0009]")
    lines = [one.text for one in page.named("bdi") if one.parents[-1] != "pre"]
    assert sum(wanted in line for line in lines) >= 40
    strangers = {line for line in lines if wanted not in line}
    last = wanted.rpartition("/")[2] or wanted
    assert strangers <= {"pass@1", "0.95", f"{last}, {last}"}


@given(st.text(st.characters()), st.text(st.characters()))
@example("[U+202E]", "\u202e")
def test_an_attribute_holds_its_value(text: str, more: str) -> None:
    (made,) = Page(element("p", more.replace("\r", ""), title=visible(text)).html).named("p")
    assert made.attributes == {"title": visible(text)}
    assert made.text == more.replace("\r", "")


@given(st.text(st.characters()))
def test_visible_text_can_be_seen_and_encoded(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not CONTROLS.search(shown)
    assert visible(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == text


@given(st.text("ab\n\u202e", min_size=1, max_size=40), st.integers(1, 40))
def test_a_cut_says_how_long_the_text_is(text: str, limit: int) -> None:
    shown = shortened(text, limit)
    if len(text) <= limit:
        assert shown == visible(text)
    else:
        assert shown.startswith(visible(text[:limit]))
        assert shown.endswith(f"(the first {limit} of {len(text)} characters)")
    assert "\n" not in on_one_line(text, limit)


def test_a_million_characters_are_cut_with_their_length() -> None:
    source = render_html(analysis_of_text("<&\u202e" * 333_334))
    assert len(source) < 400_000
    assert "of 1,000,002 characters)" in source


def test_headings_captions_and_labels(page: Page) -> None:
    levels = [int(one.tag[1]) for one in page.elements if re.fullmatch(r"h[1-6]", one.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 or after == 4 for before, after in itertools.pairwise(levels))
    captions = [one for one in page.named("caption") if one.text.strip()]
    assert len(captions) == len(page.named("table")) > 10
    assert all(one.attributes.get("scope") in {"col", "row"} for one in page.named("th"))
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(set(ids)) == len(ids)
    for one in page.elements:
        for name in ("aria-labelledby", "for"):
            assert set((one.attributes.get(name) or "").split()) <= set(ids)
        if (target := one.attributes.get("href")) is not None:
            assert target.startswith("#") and target[1:] in ids
    assert len(page.named("svg")) == 4
    for picture in page.named("svg"):
        assert picture.attributes["role"] == "img"
        assert "figure" in picture.parents
    assert [one.parents[-1] for one in page.named("desc")] == ["svg"] * 4
    assert page.elements[0].attributes == {"lang": "en"}


def test_nothing_is_asked_of_the_outside(page: Page) -> None:
    source = render_html(full_analysis())
    for name in ("src", "srcset", "action", "style", "background", "data", "poster", "ping"):
        assert not [one for one in page.elements if name in one.attributes]
    assert not [name for one in page.elements for name in one.attributes if name.startswith("on")]
    assert not {one.tag for one in page.elements} & {
        "link",
        "img",
        "iframe",
        "object",
        "base",
        "a:",
    }
    addresses = re.findall(r"[a-z]+://[^\s\"'<]*", source)
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in source and "url(" not in page.named("style")[0].text
    assert "innerHTML" not in source and "eval(" not in source


def test_the_policy_allows_the_own_style_and_script_only(page: Page) -> None:
    (policy,) = [
        one.attributes["content"]
        for one in page.named("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))
    (style,), (script,) = page.named("style"), page.named("script")
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'{digest(style.text)}'",
        "script-src": f"'{digest(script.text)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def digest(source: str) -> str:
    """As a policy writes it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def test_the_same_analysis_gives_the_same_bytes() -> None:
    assert render_html(full_analysis(3)) == render_html(full_analysis(3))


def test_every_number_says_how_it_was_made(page: Page) -> None:
    rows = [one.text for one in page.named("tr")]
    for found in full_analysis().statistics:
        (row,) = [row for row in rows if row.startswith(found.name) and found.estimator in row]
        assert f"{number(found.tasks)}{'8 to 10'}{found.estimator}" in row
        assert f"unit{found.unit}" in row
        if found.interval is None:
            assert f"refused {found.refusal}" in row
            assert found.reason is not None and found.reason in row
        else:
            low, high = number(found.interval.low), number(found.interval.high)
            assert f"{number(found.value)}[{low}, {high}]" in row
            assert "percentile bootstrap over tasks, 95 %" in row


def test_refusals_are_said_once_with_their_mend(page: Page) -> None:
    notices = [one.text for one in page.elements if one.attributes.get("class") == "notice"]
    assert len(notices) == 2
    assert notices[0].startswith("R6: 2 numbersbest_of_n@8,2: search and final")
    assert notices[0].count("grade by another verifier") == 1
    assert "To have it honestly: grade by another verifier" in notices[0]
    assert notices[1].startswith("R12: 1 numberbrier: scores reach 3.5To have it honestly: ")
    (summary,) = [
        one for one in page.named("section") if one.attributes["aria-labelledby"] == "summary"
    ]
    assert "pass@1 = 0.4126 [0.3726, 0.4526]" in summary.text
    assert "3 of 17 numbers refused (R6 R12); 3 warnings." in summary.text
    assert "404 rows read = 396 used + 8 left out" in summary.text


@given(
    st.lists(st.sampled_from(["pass@3", "ess", "essay", "brier", "x", "power_ess", ""]), max_size=6)
)
def test_every_statistic_is_in_one_section(names: list[str]) -> None:
    given_ = [statistic(f"{name}{place}", 0.5) for place, name in enumerate(names)]
    grouped = [one.name for group in in_sections(given_) for one in group.statistics]
    assert sorted(grouped) == sorted(one.name for one in given_)


@given(
    st.lists(
        st.tuples(st.sampled_from(["pass@", "pass^", "a@b^", "@"]), st.integers(0, 99)), unique=True
    ),
    st.lists(st.sampled_from(["brier", "pass@", "oracle@N", "", "7"]), unique=True),
)
def test_compact_names_say_every_name(pairs: list[tuple[str, int]], others: list[str]) -> None:
    names = [*(f"{kind}{k}" for kind, k in pairs), *others]
    said: list[str] = []
    for short in compact(names):
        first, *ks = short.split(",")
        said += [first, *(first.rstrip("0123456789") + k for k in ks)]
    assert sorted(said) == sorted(names)
    assert len(compact(names)) == len({kind for kind, _ in pairs}) + len(others)


def test_numbers_stand_open_and_refused_ones_behind_a_line(page: Page) -> None:
    rows = [one for one in page.named("tr") if "samples a task" not in one.text]
    for found in full_analysis().statistics:
        (row,) = [
            one for one in rows if one.text.startswith(found.name) and found.estimator in one.text
        ]
        assert ("details" in row.parents) == (found.value is None)
    lines = [one.text for one in page.named("summary") if "refused" in one.text]
    assert lines == ["2 numbers refused (R6)", "1 number refused (R12)"]
    absent = statistic("brier", None, refusal="R0", reason="no row has score: never guessed")
    unsound = absent._replace(refusal="R6", reason="search and final verifier agree")
    made = full_analysis(0)._replace(statistics=(absent, unsound))
    reasons = [one for one in Page(render_html(made)).named("p") if one.text.startswith("brier: ")]
    assert ["details" in one.parents for one in reasons] == [False, True]
    assert "no row has score" in reasons[1].text


def test_warnings_that_repeat_refusals_are_counted() -> None:
    made = full_analysis(0)
    repeated = Warned("R12", "brier refused: scores reach 3.5", 1)
    others = (repeated._replace(code="R6"), repeated._replace(message="brier refused: scores"))
    page = Page(render_html(made._replace(warnings=(repeated, *others))))
    (section,) = [
        one for one in page.named("section") if one.attributes["aria-labelledby"] == "warnings"
    ]
    assert "2 warnings; 1 more say what is refused above" in section.text
    assert section.text.count("brier refused") == 2


def test_a_great_log_has_a_bounded_page_that_says_what_is_missing() -> None:
    most = MOST_TASKS + 234
    made = full_analysis()._replace(
        curves=(),
        lengths=(),
        reliability=(),
        tasks=tuple(
            task(place)._replace(ess=None, samples=MOST_SAMPLES + 3) for place in range(most)
        ),
        samples=tuple(
            sample(f"problem-{p:03}", s)
            for p in range(MOST_OPENED + 5)
            for s in range(MOST_SAMPLES)
        ),
    )
    made = made._replace(counts=made.counts._replace(prompts=5000))
    page = Page(render_html(made))
    (table,) = [one for one in page.named("table") if one.attributes.get("id") == "tasks-table"]
    assert "1,000 tasks of 5,000; 4,000 tasks not shown" in table.text
    rows = [one for one in page.named("tr") if "data-warned" in one.attributes]
    assert len(rows) == MOST_TASKS // 4
    assert (
        len([one for one in page.elements if one.attributes.get("class") == "task"]) == MOST_OPENED
    )
    assert len(page.named("article")) == MOST_OPENED * MOST_SAMPLES
    text = page.named("main")[0].text
    assert text.count("3 more samples not shown") == MOST_OPENED
    assert "samples of 4,900 other tasks are not in this page" in text


def test_columns_without_anything_are_left_out() -> None:
    tasks = tuple(task(place)._replace(truncated=0, errors=0) for place in range(4))
    page = Page(render_html(full_analysis(4)._replace(tasks=tasks)))
    (table,) = [one for one in page.named("table") if one.attributes.get("id") == "tasks-table"]
    heads = [one.text for one in page.named("th") if one.attributes.get("scope") == "col"]
    assert "cut" not in heads and "errors" not in heads and "accuracy" in heads
    assert "No task has: mean score, cut, errors" in table.text


def test_curves_of_zeros_and_of_one_point() -> None:
    flat = Curve("pass", tuple(CurvePoint(k, 0.0, 0.0, 0.0) for k in (1, 2, 4)), 9)
    drawn = coverage_chart((flat,), None)
    assert drawn is not None and "\u2212" not in drawn.html  # no share below 0 on the axis
    bare, known = (
        coverage_chart((Curve("pass", (CurvePoint(5, 0.5, *ends),), 9),), None)
        for ends in ((None, None), (0.25, 0.75))
    )
    assert bare is not None and known is not None
    assert known.html.count("<path") > bare.html.count("<path")


def test_prompts_that_are_numbers_are_not_those_that_are_text() -> None:
    rows = (sample("1", 0), sample("1", 1)._replace(prompt_id=1))
    tasks = (task(0)._replace(prompt_id=1), task(1)._replace(prompt_id="1"))
    made = full_analysis(0)._replace(
        samples=rows, tasks=tasks, curves=(), lengths=(), reliability=()
    )
    page = Page(render_html(made))
    links = [one.attributes["href"] for one in page.named("a") if one.parents[-2:] == ("tr", "th")]
    assert links == ["#task-2", "#task-1"]


def test_an_empty_analysis_has_a_page() -> None:
    made = full_analysis(0)
    empty = Analysis((), "native", {}, (), made.counts._replace(prompts=0), (), ())
    text = Page(render_html(empty)).named("main")[0].text
    assert "No number was asked for." in text
    assert "Nothing to warn of." in text


def test_hostile_names_of_curves_stay_in_the_picture() -> None:
    points = (CurvePoint(1, 0.5, None, None),)
    for name in ("<script>$\\frac", "\x00\u202e\ud800"):
        source = render_html(full_analysis(0)._replace(curves=(Curve(name, points, 3),)))
        assert not CONTROLS.search(source)
        assert any(visible(name) in one.text for one in Page(source).named("svg"))
        assert len(Page(source).named("script")) == 1

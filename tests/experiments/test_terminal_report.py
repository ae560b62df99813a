"""The table of an analysis on a terminal and in a pipe."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from experiments.rollout_logs.analysis import IntervalRecord
from experiments.rollout_logs.terminal_report import print_analysis
from experiments.rollout_logs.wording import code_order, headlines, number
from tests.experiments.analyses import analysis_of_text, full_analysis, statistic


def printed(analysis: object, width: int = 80, encoding: str = "utf-8") -> str:
    """What a stream of that width and encoding is given."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    print_analysis(analysis, console)  # pyright: ignore[reportArgumentType]
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_every_number_is_whole_in_eighty_columns() -> None:
    text = printed(full_analysis())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    for found in full_analysis().statistics:
        rows = [line for line in lines if line.startswith(f"{found.name} ") and " = " not in line]
        if found.value is None:
            assert not rows
        else:
            (line,) = rows
            assert found.interval is not None
            wanted = f"{number(found.value)} *\\[{number(found.interval.low)}, {number(found.interval.high)}\\]"
            assert re.search(f"{wanted} +40 +8 to 10", line)
    # What is refused has a line a section and code, under the numbers that are given or in place of them.
    assert "  refused R6: best_of_n@8,2" in lines
    assert lines[lines.index("  refused R12: brier") - 1] in ("", "Calibration")
    assert "pass@1 = 0.4126 [0.3726, 0.4526]" in text
    assert "3 of 17 numbers refused, 3 warnings" in text
    assert "404 rows read = 396 used + 8 left out; 40 tasks, 8 to 10 samples each" in text


def test_a_pipe_has_each_reason_on_one_line() -> None:
    lines = [line.strip() for line in printed(full_analysis(), width=10_000).splitlines()]
    assert "R6: best_of_n@8,2" in lines
    assert [line for line in lines if line.startswith("To have it honestly: grade by another")]
    assert "R12: brier" in lines and "scores reach 3.5" in lines
    order = [line.partition(" ")[0] for line in lines[lines.index("Warnings") + 1 :]]
    assert order == ["R2", "R15", "unreadable"]
    made = [line for line in lines if line.startswith("pass@1,2,8, oracle@N")]
    assert made and made[0].endswith("unit task; 95 % interval, percentile bootstrap over tasks")


def test_what_was_read_from_which_field_is_said_first() -> None:
    made = full_analysis()._replace(options={"success": "correct", "answer rules": "1"})
    lines = printed(made, width=10_000).splitlines()
    found = lines[: lines.index("")]
    assert "read: prompt_id from uid, correct from acc" in found
    assert "not in this log: behavior_logp, wall_s" in found
    assert "success: correct" in found and "answer rules: 1" in found


def test_numbers_that_differ_in_k_alone_are_made_once() -> None:
    words = {1: "1 - C(n - c, 1) / C(n, 1)", 8: "1 - C(n - c, 8) / C(n, 8)", 95: "1 - C(n - c, 95) / C(n, 95)"}  # fmt: skip
    same = tuple(statistic(f"pass@{k}", 0.5, estimator=made) for k, made in words.items())
    lines = printed(full_analysis()._replace(statistics=same), width=10_000).splitlines()
    made = lines[lines.index("How they were made") + 1 : lines.index("Warnings") - 1]
    # With k = 95 the level of the interval would become one, too: each on a line of its own.
    assert len(made) == 3 and "  pass@8: 1 - C(n - c, 8) / C(n, 8);" in made[1]
    lines = printed(full_analysis()._replace(statistics=same[:2]), width=10_000).splitlines()
    assert any("  pass@1,8: 1 - C(n - c, k) / C(n, k); unit task; 95 %" in line for line in lines)


def test_a_stream_without_boxes_gets_none() -> None:
    assert printed(full_analysis(), encoding="ascii").isascii()
    assert printed(analysis_of_text("\u00e9\u4e2d\ud800"), encoding="latin-1")


@given(st.text(st.characters(), min_size=1, max_size=30))
def test_text_of_a_log_cannot_steer_the_terminal(text: str) -> None:
    shown = printed(analysis_of_text(f"\x1b]0;title\x07{text}"), width=10_000)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "[U+001B]]0;title[U+0007]" in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (1.0, "1"),
        (0.41264, "0.4126"),
        (1234.5678, "1235"),
        (12345.678, "12,346"),
        (12345.0, "12,345"),
        (-20000.0, "-20,000"),
        (1.25e-7, "1.25e-07"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_in_words(value: float | None, text: str) -> None:
    assert number(value) == text


def test_codes_in_the_order_of_their_numbers() -> None:
    codes = ["unreadable", "R10", "R2", "Rx", "R0"]
    assert sorted(codes, key=code_order) == ["R0", "R2", "R10", "Rx", "unreadable"]


def test_the_headline_is_a_number_that_is_given() -> None:
    refused = statistic("pass@1", None, refusal="R10", reason="no success")
    given_ = [refused, statistic("pass@4", None, refusal="R10"), statistic("mean_reward", 0.25)]
    assert [one.name for one in headlines(given_)] == ["mean_reward", "pass@1", "pass@4"]
    ks = [statistic(f"pass@{k}", 0.1 * k) for k in (1, 2, 4)] + [statistic("pass@8", None)]
    assert [one.name for one in headlines(ks)] == ["pass@1", "pass@4"]


def test_an_interval_of_a_wide_number_is_not_cut() -> None:
    record = IntervalRecord(-123456.0, 1234567.0, 0.9, "t")
    made = full_analysis()._replace(
        statistics=(statistic("x" * 90, 5.0)._replace(interval=record),)
    )
    text = printed(made)
    assert "[-123,456, 1,234,567]" in text and "90 % interval, t" in text

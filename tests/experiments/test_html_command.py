"""`rolloutlab analyze LOG --html FILE`: the page of a log whose every text wants to be code."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.rollout_logs.visible_text import visible
from tests.experiments.pages import Page
from tests.experiments.rollout_log_tools import write_log
from tests.experiments.test_html_report import CONTROLS

HOSTILE = (
    "</script><script>window.broken = 1</script>",
    "\" onmouseover='window.broken = 1",
    "</bdi></td></table></main>",
    "a\u202eb\x1b[31m\u2028&lt;",
)


def log(path: Path, texts: tuple[str, ...]) -> Path:
    """Two tasks a text, three samples each, the first of them right; texts wherever a row has any."""
    rows: list[dict[str, Any]] = [
        {
            "prompt_id": f"{task} {text}",
            "sample_id": f"{sample} {text}",
            "correct": sample == 0,
            "answer": text if sample else f"right {text}",
            "policy_version": text,
            "policy_id": text,
            "finish_reason": "stop",
            "error": text if sample == 2 else None,
            "completion_tokens": 10 + sample,
        }
        for text in texts
        for task in range(2)
        for sample in range(3)
    ]
    return write_log(path, rows)


def test_a_file_holds_the_numbers_of_the_json(tmp_path: Path) -> None:
    path = log(tmp_path / "log.jsonl", HOSTILE)
    page_path, json_path = tmp_path / "out.html", tmp_path / "out.json"
    words = ["analyze", str(path), "--k", "1,2", "--json", str(json_path), "--html"]
    assert main([*words, str(page_path)]) == 0
    source = page_path.read_text(encoding="utf-8")
    document = json.loads(json_path.read_text())
    assert not CONTROLS.search(source)
    page = Page(source)
    (summary,) = [
        one for one in page.named("section") if one.attributes["aria-labelledby"] == "summary"
    ]
    (found,) = [one for one in document["statistics"] if one["name"] == "pass@1"]
    assert "pass@1 = 0.3333" in summary.text and found["value"] == pytest.approx(1 / 3)
    assert "24 rows read = 24 used + 0 left out." in summary.text
    rows = [one.text for one in page.named("tr")]
    for statistic in document["statistics"]:
        assert any(row.startswith(statistic["name"]) for row in rows)
        if statistic["reason"] is not None:
            assert statistic["refusal"] in page.named("main")[0].text
    texts = [one.text for one in page.named("bdi")]
    for text in HOSTILE:
        assert f"0 {visible(text)}" in texts
        assert f"right {visible(text)}" in texts
    assert len(page.named("script")) == len(page.named("main")) == 1
    assert not [name for one in page.elements for name in one.attributes if name.startswith("on")]
    harmless = log(tmp_path / "log.jsonl", ("w", "x", "y", "z"))
    assert main(["analyze", str(harmless), "--k", "1,2", "--html", str(tmp_path / "plain")]) == 0
    plain = Page((tmp_path / "plain").read_text(encoding="utf-8"))
    assert page.structure() == plain.structure()


def test_stdout_holds_the_page_and_nothing_else(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = log(tmp_path / "log.jsonl", HOSTILE)
    assert main(["analyze", str(path), "--html", str(tmp_path / "page.html")]) == 0
    capfdbinary.readouterr()
    assert main(["analyze", str(path), "--html", "-"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "page.html").read_bytes()
    assert main(["analyze", str(path), "--html", "-", "--json", "-"]) == 2
    caught = capfdbinary.readouterr()
    assert caught.out == b"" and caught.err.count(b"\n") == 1


def test_a_page_is_not_written_over_its_log(tmp_path: Path) -> None:
    path = log(tmp_path / "log.jsonl", HOSTILE[:1])
    before = path.read_bytes()
    assert main(["analyze", str(path), "--html", str(path)]) == 2
    assert main(["analyze", str(path), "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert path.read_bytes() == before


def test_a_long_completion_begins_on_the_page_with_its_whole_length(tmp_path: Path) -> None:
    rows = [{"task_id": "t", "completion": "y" * 123_456, "passed": True}]
    path, page = write_log(tmp_path / "log.jsonl", rows), tmp_path / "page.html"
    assert main(["analyze", str(path), "--html", str(page)]) == 0
    (block,) = Page(page.read_text(encoding="utf-8")).named("pre")
    assert block.text == "y" * 2000 + " ... (the first 2,000 of 123,456 characters)"

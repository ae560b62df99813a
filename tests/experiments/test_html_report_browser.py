"""The page in a browser: it opens by itself, sorts, filters and opens samples by keyboard, and asks nothing of the outside."""

import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from experiments.rollout_logs.html_report import render_html
from tests.experiments.analyses import analysis_of_text, full_analysis
from tests.experiments.test_html_report import HOSTILE

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

# Contrast of all text with the nearest background that is painted, as WCAG 2 defines it.
CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgb = (color) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return Array.from(canvas.getImageData(0, 0, 1, 1).data);
};
const light = (color) => {
  const [r, g, b] = color.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
document.querySelectorAll("details").forEach((one) => { one.open = true; });
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || ["SCRIPT", "TITLE", "title", "desc"].includes(element.tagName)) continue;
  const svg = element.tagName === "text";
  let behind = element;
  while (behind && rgb(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const style = getComputedStyle(element);
  const pair = [light(rgb(svg ? style.fill : style.color)), light(rgb(getComputedStyle(behind).backgroundColor))];
  const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  found.push([ratio, walker.currentNode.data.slice(0, 40)]);
}
return found;
"""


@pytest.fixture(name="browser", scope="module")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:  # pyright: ignore[reportUnusedFunction]
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        assert not os.environ.get("ROLLOUTLAB_NO_SKIPS"), "install chromium and chromium-driver"
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    started = webdriver.Chrome(options=options, service=service)
    yield started
    started.quit()


@pytest.fixture(name="pages", scope="module")
def _pages() -> set[str]:  # pyright: ignore[reportUnusedFunction]
    """All that the browser was told to open: on a busy machine its log may bring the request for an earlier page late."""
    return set()


@pytest.fixture(name="open_page")
def _open_page(browser: Any, pages: set[str], tmp_path: Path) -> Generator[Any]:  # pyright: ignore[reportUnusedFunction]
    """Open the page of an analysis; afterwards nothing was logged and nothing asked for but the file."""

    def opened(analysis: Any, width: int = 1100, theme: str = "light") -> Any:
        path = tmp_path / "report.html"
        path.write_text(render_html(analysis), encoding="utf-8")
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get("about:blank")
        browser.get_log("performance")
        browser.get_log("browser")
        pages.add(path.as_uri())
        browser.get(path.as_uri())
        return browser

    yield opened
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {
        event["params"]["request"]["url"].partition("#")[0]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked <= pages


def first_tasks(browser: Any, count: int = 3) -> list[str]:
    """Names of the first tasks that are shown."""
    rows = browser.find_elements(By.CSS_SELECTOR, "#tasks-table tbody tr:not([hidden]) th")
    return [row.text for row in rows[:count]]


def heading(browser: Any, name: str) -> Any:
    """A heading of the table of tasks."""
    path = f"//table[@id='tasks-table']/thead//th[button[.='{name}']]"
    return browser.find_element(By.XPATH, path)


@pytest.mark.slow
def test_tasks_sort_by_click_and_by_keyboard(open_page: Any) -> None:
    browser = open_page(full_analysis())
    assert first_tasks(browser) == ["problem-000", "problem-001", "problem-002"]
    accuracy = heading(browser, "accuracy")
    accuracy.find_element(By.TAG_NAME, "button").click()
    assert accuracy.get_attribute("aria-sort") == "ascending"
    assert first_tasks(browser) == ["problem-000", "problem-011", "problem-022"]
    accuracy.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert accuracy.get_attribute("aria-sort") == "descending"
    assert first_tasks(browser) == ["problem-010", "problem-021", "problem-032"]
    tokens = heading(browser, "mean tokens")
    for order in ("ascending", "descending"):
        tokens.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
        assert tokens.get_attribute("aria-sort") == order
        rows = browser.find_elements(By.CSS_SELECTOR, "#tasks-table tbody tr th")
        assert {row.text[-1] for row in rows[-4:]} == {"9"}  # no value: last in both orders
    assert accuracy.get_attribute("aria-sort") == "none"
    said = browser.find_element(By.ID, "filter-found").text
    assert said == "40 of 40 tasks, sorted by mean tokens, descending"


@pytest.mark.slow
def test_tasks_filter_by_text_and_by_warnings(open_page: Any) -> None:
    browser = open_page(full_analysis())
    text = browser.find_element(By.ID, "filter-text")
    text.send_keys("PROBLEM-01")
    assert len(first_tasks(browser, 99)) == 10
    browser.find_element(By.ID, "filter-warned").send_keys(Keys.SPACE)
    assert first_tasks(browser, 99) == ["problem-012", "problem-016"]
    assert browser.find_element(By.ID, "filter-found").text == "2 of 40 tasks"
    text.send_keys(Keys.CONTROL, "a")
    text.send_keys(Keys.BACKSPACE)
    assert len(first_tasks(browser, 99)) == 10


@pytest.mark.slow
def test_samples_open_by_keyboard_alone(open_page: Any) -> None:
    browser = open_page(full_analysis())
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the summary"
    for _ in range(120):
        active = browser.switch_to.active_element
        if active.get_attribute("href") and active.get_attribute("href").endswith("#task-2"):
            break
        active.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    opened = browser.find_element(By.CSS_SELECTOR, "#task-2 > details")
    assert opened.get_attribute("open") is not None
    assert browser.switch_to.active_element.tag_name == "summary"
    assert "First 0," in opened.text and "Task problem-001, 2 samples" in opened.text
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert opened.get_attribute("open") is None


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(open_page: Any, theme: str) -> None:
    browser = open_page(full_analysis(8), theme=theme)
    paper = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(paper)
    button = browser.find_element(By.ID, "theme")
    assert button.text == {"light": "Dark theme", "dark": "Light theme"}[theme]
    found = browser.execute_script(CONTRASTS)
    assert len(found) > 300
    assert [one for one in found if one[0] < 4.5] == []
    button.send_keys(Keys.ENTER)
    assert browser.execute_script(paper) != before
    button.send_keys(Keys.ENTER)
    assert browser.execute_script(paper) == before


@pytest.mark.slow
def test_a_phone_scrolls_down_only(open_page: Any) -> None:
    long = full_analysis()._replace(inputs=("x" * 500,), format="y" * 90)
    for analysis in (long, analysis_of_text("W" * 5000)):
        browser = open_page(analysis, width=360)
        browser.execute_script(
            "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
        assert browser.execute_script(widths) == [360, 360]


def test_hostile_text_runs_nothing(open_page: Any) -> None:
    for text in ("".join(HOSTILE), *HOSTILE[:5]):
        browser = open_page(analysis_of_text(text))
        assert browser.execute_script("return window.broken") is None
        assert len(browser.find_elements(By.TAG_NAME, "script")) == 1
        assert browser.find_elements(By.TAG_NAME, "img") == []

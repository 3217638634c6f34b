"""The Compare page in a browser: from click to verdict, on the embedded pair."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import END, at_rest, next_frame, seek, text_of
from tests.browser.replay_files import opener
from tests.browser.test_access import own_violations, serious_violations
from tests.browser.test_replay_file import FIGURES

pytestmark = pytest.mark.timeout(240)

VERDICT = ".st-key-compare_verdict_prompt"
RACE = """() => [...document.querySelectorAll('[data-testid="race-lane"]')]
  .map((each) => [each.textContent, each.querySelector('.time')?.dataset.seconds])"""
RACER = '[data-testid="stMain"] .racer'

MARKUP = "<img srcx>*b*"  # a name in a link has no =

STOP = "[class*=st-key-compare_cancel] button"


def compare_url(server: Server, *lanes: str, repeats: int = 3) -> str:
    asked = [("lane", lane) for lane in lanes]
    shared = {"compare_length": "24", "compare_repeats": str(repeats)}
    return f"{server.url}/compare?{urlencode([*asked, *shared.items()])}"


def table_of(page: Any, table: str) -> list[str]:
    """Return the texts of the table's body cells."""
    cells = page.locator(f"{table} tbody td").all_inner_texts()
    texts = [text.replace("\u2060", "") for text in cells]  # word joiners
    return ["" if text.strip() == "–" else text.strip() for text in texts]


def come_to_verdict(page: Any) -> str:
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector(VERDICT, timeout=150_000)
    page.wait_for_selector('[data-testid="player"]')
    return page.locator(VERDICT).inner_text()


def test_from_click_to_verdict(
    server: Server, open_page: Callable[..., Any], browser: Any, tmp_path: Path
) -> None:
    page = open_page(compare_url(server, f"gamma=2,name={MARKUP}", "gamma=8", repeats=2))
    verdict = come_to_verdict(page).replace("\u2060", "")  # word joiners
    assert MARKUP in verdict
    assert "γ 8" in verdict
    assert "over 2 repeats" in verdict
    assert "4 runs: one prompt, 2 repeats, at most 24 tokens each" in verdict
    page.locator('[data-testid="stPlotlyChart"] .main-svg').first.wait_for()
    page.wait_for_selector('[data-testid="stTable"]')
    page.locator(f"{RACER} >> nth=2").wait_for()  # both lanes and the target alone
    assert page.locator('[data-testid="stTable"]').count() == 1
    card = page.locator("[class*=st-key-compare_card_]").first
    assert MARKUP in card.inner_text().replace("\u2060", "")
    assert page.locator('[data-testid="stMain"] img').count() == 0
    at_rest(page)
    assert serious_violations(page) == []
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download the comparison (JSON)").click()
    assert waiting.value.suggested_filename == "specviz-comparison.json"
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download a replay (HTML)").click()
    html = waiting.value.path().read_text(encoding="utf-8")
    with opener(browser, tmp_path) as open_file:
        replay = open_file(html)
        same_figures(page, replay)
        assert replay.locator("img").count() == 0


def same_figures(page: Any, replay: Any) -> None:
    """Assert that the downloaded file shows the page's result, table, race and player."""
    for each in (page, replay):
        seek(each, END)
    shown = " ".join(page.locator(VERDICT).inner_text().replace("\u2060", "").split())
    assert replay.inner_text('[data-testid="replay-verdict"]').split(". ")[0] in shown
    assert table_of(replay, "table") == table_of(page, '[data-testid="stTable"]')
    assert len(table_of(replay, "table")) >= 20
    for lane in range(2):
        for each in (page, replay):
            each.click(f'[data-testid="race-lane"] >> nth={lane} >> role=radio')
            next_frame(each)
        assert page.evaluate(RACE) == replay.evaluate(RACE)
        assert len(page.evaluate(FIGURES)) > 5
        assert page.evaluate(FIGURES) == replay.evaluate(FIGURES)
        assert text_of(page) == text_of(replay)


@pytest.mark.thorough
def test_a_comparison_continues_without_its_page_and_stops_from_another(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = at_rest(open_page(compare_url(server, "gamma=3", "gamma=6", repeats=2)))
    with server.paused_workers():
        page.get_by_role("button", name="Compare", exact=True).click()
        page.locator(STOP).wait_for()
        page.get_by_role("link", name="Runs").first.click()
        page.locator(".st-key-work_line").get_by_text(re.compile("^Working: ")).wait_for()
        other = open_page(f"{server.url}/")
        other.locator(".st-key-work_line").get_by_role("link", name="Show").click()
        other.get_by_text("The comparison continues when you leave or close this page").wait_for()
    other.reload()
    other.wait_for_selector(VERDICT, timeout=150_000)
    assert "4 runs: one prompt, 2 repeats" in other.inner_text(VERDICT)
    page.get_by_role("link", name="Compare").first.click()
    page.wait_for_selector(VERDICT)
    assert page.inner_text(VERDICT) == other.inner_text(VERDICT)
    page.goto(compare_url(server, "gamma=1", "gamma=7", repeats=10))
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator(STOP).wait_for()
    other.goto(f"{server.url}/runs")
    other.locator(".st-key-work_line").get_by_role("button", name="Stop").click()
    other.locator(".st-key-work_line").wait_for(state="detached")
    page.get_by_text(re.compile("^The comparison ended (after|before)")).wait_for()


@pytest.mark.thorough
def test_prompt_lookup_as_a_lane_on_a_narrow_page(
    server: Server, open_page: Callable[..., Any]
) -> None:
    url = compare_url(server, "gamma=4", "drafter=prompt-lookup", repeats=2)
    page = open_page(url, width=420, height=860, scheme="dark")
    verdict = come_to_verdict(page)
    assert "prompt lookup" in verdict
    assert "over 2 repeats" in verdict
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    lanes, link = (page.locator(f".st-key-compare_{each}") for each in ("lanes", "to_lanes"))
    assert page.locator(VERDICT).bounding_box()["y"] < lanes.bounding_box()["y"]
    link.get_by_role("link").click()
    page.wait_for_function(
        "() => document.querySelector('.st-key-compare_lanes').getBoundingClientRect().y"
        " < innerHeight"
    )
    at_rest(page)
    assert own_violations(page) == []


@pytest.mark.thorough  # everything but the drawing is tested without a browser
def test_by_kind_with_progress_cancel_and_chart_then_found_again(
    server: Server, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    shared = {"compare_length": "8", "compare_tab": "By kind"}
    page = open_page(f"{server.url}/compare?{urlencode(shared)}")
    page.get_by_role("button", name="Compare by kind").click()
    progress = page.locator(".st-key-compare_progress_suite")
    progress.get_by_text(re.compile(r"^[1-9]\d* of \d+ runs")).wait_for(timeout=90_000)
    page.locator(STOP).click()
    ended = re.compile(r"The comparison ended after \d+ of \d+ runs\. Finished runs are kept")
    page.get_by_text(ended).wait_for()
    page.get_by_text("A file of mine").click()
    kinds = [("One day a cat", "story"), ("Tom had a ball", "list")]
    lines = [json.dumps({"prompt": prompt, "kind": kind}) for prompt, kind in kinds]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    page.set_input_files("input[type=file]", str(tmp_path / "mine.jsonl"))
    page.get_by_label("Repeats of each").fill("1")
    page.keyboard.press("Enter")
    page.get_by_text("4 runs of at most 8 tokens").wait_for()
    page.get_by_role("button", name="Compare by kind").click()
    page.get_by_text("4 runs: 2 prompts").wait_for(timeout=90_000)
    chart = page.locator(".st-key-compare_kind_speeds_suite")
    chart.locator(".xaxislayer-above text").nth(1).wait_for()
    assert chart.locator(".xaxislayer-above text").all_text_contents() == ["story", "list"]
    page.get_by_role("tab", name="Kept").click()
    page.get_by_label("Comparisons, newest first").click()
    page.get_by_role("option").filter(has_text="4 runs").first.click()
    page.wait_for_selector(VERDICT.replace("prompt", "kept"))
    assert "4 runs: 2 prompts" in page.inner_text(VERDICT.replace("prompt", "kept"))

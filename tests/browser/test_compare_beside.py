"""Saved runs of two engines side by side on Compare, from Runs to the race and its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from specviz.store import Library
from specviz.store.saving import save_run
from tests.browser.conftest import Server
from tests.browser.reading import END, at_rest, seek, text_of
from tests.browser.test_access import own_violations, serious_violations
from tests.browser.test_compare import table_of
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import cut_off
from tests.player.races import thrifty
from tests.record.server_traces import server_trace, timed, without_rounds

RESULT = '[data-testid="race-result"]'
TABLE = ".st-key-compare_table_beside"


@pytest.fixture(scope="module")
def runs(data_folder: Path) -> list[str]:
    library = Library(data_folder / "runs.db")
    traces = {
        "ours": thrifty(),
        "theirs": timed(server_trace()),
        "silent": without_rounds(server_trace()),
    }
    return [save_run(library, trace, name=name) for name, trace in traces.items()]


def beside_url(server: Server, runs: list[str]) -> str:
    asked = [("compare_tab", "Side by side"), *(("beside", run) for run in runs)]
    return f"{server.url}/compare?{urlencode(asked)}"


def test_they_share_one_clock(
    server: Server, runs: list[str], open_page: Callable[..., Any]
) -> None:
    page = open_page(beside_url(server, runs))
    page.wait_for_selector('[data-testid="race-lane"] >> nth=3')  # three lanes, a target alone
    at_rest(page)
    seek(page, END)
    page.wait_for_function(f"() => document.querySelector('{RESULT}').textContent")
    assert "No winner" in page.inner_text(RESULT)
    assert page.locator(".first:visible").count() == 0
    page.click('[data-testid="race-lane"] >> nth=1 >> role=radio')
    page.wait_for_function("() => document.querySelector('.rounds .chip[data-state=rejected]')")
    assert text_of(page).endswith(" w14 w15")
    assert "2.00×" in table_of(page, TABLE)
    assert_readable(page)
    assert serious_violations(page) == []
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download a replay (HTML)").click()
    assert "No speedup between these runs is computed" in waiting.value.path().read_text()
    page.set_viewport_size({"width": 420, "height": 860})
    expect_narrow(page)


@pytest.mark.thorough
def test_they_survive_a_reload_and_a_narrow_page_is_accessible(
    server: Server, runs: list[str], open_page: Callable[..., Any]
) -> None:
    page = open_page(beside_url(server, runs), width=420, height=860)
    page.wait_for_selector('[data-testid="race-lane"] >> nth=3')
    at_rest(page)
    cells = table_of(page, TABLE)
    page.reload()
    page.wait_for_selector('[data-testid="race-lane"] >> nth=3')
    at_rest(page)
    assert table_of(page, TABLE) == cells
    expect_narrow(page)
    assert own_violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector('.sv[data-theme="dark"]')
    assert serious_violations(page) == []


def expect_narrow(page: Any) -> None:
    at_rest(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert cut_off(page) == []
    assert_readable(page)

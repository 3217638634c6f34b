"""The Runs page in a browser: direct links, a saved run in the player, files, hostile text."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.figures.metrics import metrics
from specviz.record.trace import Trace
from specviz.store import Library, RunRow, load_trace, save_trace, trace_from_json
from specviz.store.saving import save_run, summary_of
from specviz.store.tables import rounds_csv
from specviz.ui.runs import table
from tests.browser.conftest import ROOT, Server
from tests.browser.reading import STATUS, at_rest, figure, state_of
from tests.browser.test_access import own_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import cut_off
from tests.hostile_traces import MARKUP, SCRIPT, strange_traces
from tests.store.copied_runs import copy_first_run

FIRST = load_trace(ROOT / "assets" / "first_trace.json")
TABLE = '[data-testid="stDataFrame"]'
_ROW, _FIRST_ROW, _PADDING = 35, 52, 16  # pixels: rows are drawn on a canvas
# The row of a run with a simulated size, and the width of a text in the table's font.
EXAMPLE = RunRow(
    id="", name="", note="", tags=(), summary=summary_of(FIRST), comparison=None, job=None,
    memory_bytes=None, trace_bytes=0,
)  # fmt: skip
TEXT_WIDTH = """async (text) => {
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = `14px ${getComputedStyle(document.querySelector('[data-testid=stApp]')).fontFamily}`;
  await document.fonts.load(pen.font);
  return pen.measureText(text).width;
}"""


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    library = Library(folder / "runs.db")
    save_run(library, replace(FIRST, created="2026-01-02T03:04:05+00:00"), name="the first run")
    strange = save_run(library, strange_traces()["scripts"], name=f"{SCRIPT}{MARKUP}")
    library.annotate(strange, tags=[SCRIPT[:40]])
    library.annotate(strange, note=SCRIPT + MARKUP)
    return folder


@pytest.fixture(scope="module")
def library_server(serve: Callable[..., Server], runs_folder: Path) -> Server:
    return serve(SPECVIZ_HOME=str(runs_folder))


def select_row(page: Any, row: int) -> None:
    """Select a row; clicks are lost while the table is being drawn."""
    chosen = page.locator("text=1 chosen")
    for _ in range(4):
        box = page.locator(TABLE).bounding_box()
        page.mouse.click(box["x"] + 16, box["y"] + _FIRST_ROW + _ROW * row)
        if wait_briefly_for(page, chosen):
            break
    chosen.wait_for()
    at_rest(page)


def wait_briefly_for(page: Any, locator: Any, tenths: int = 50) -> bool:
    for _ in range(tenths):
        if locator.count():
            return True
        page.wait_for_timeout(100)
    return False


def wait_for_table(page: Any) -> Any:
    page.wait_for_selector(TABLE)
    return at_rest(page)


@pytest.mark.parametrize(
    ("width", "scheme"), [pytest.param(1440, "light", marks=pytest.mark.thorough), (420, "dark")]
)
def test_a_direct_link_shows_the_saved_runs(
    library_server: Server, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    page = wait_for_table(open_page(f"{library_server.url}/runs", width=width, scheme=scheme))
    assert cut_off(page) == []
    select_row(page, 0)
    assert cut_off(page) == []
    assert_readable(page)
    assert own_violations(page) == []


@pytest.mark.thorough
def test_an_empty_sidebar_takes_no_space(
    library_server: Server, open_page: Callable[..., Any]
) -> None:
    """Streamlit sometimes leaves it open when a link leads to a page without a sidebar."""
    page = open_page(f"{library_server.url}/compare")
    sidebar = page.locator('[data-testid="stSidebar"]')
    sidebar.get_by_text("Repeats").wait_for()
    at_rest(page)  # later drawing would restore its content
    assert sidebar.is_visible()
    before = places_in_menu(page)
    page.locator('[data-testid="stSidebarUserContent"]').evaluate("each => each.replaceChildren()")
    assert not sidebar.is_visible()
    assert page.get_by_test_id("stMain").bounding_box()["x"] == 0
    assert places_in_menu(page) == [pytest.approx(each, abs=1) for each in before]


ONE_SEARCH = "() => document.querySelectorAll('input[aria-label=Search]').length === 1"


@pytest.mark.thorough
def test_the_menu_stays_in_place_on_a_page_without_a_sidebar(
    library_server: Server, open_page: Callable[..., Any]
) -> None:
    page = at_rest(open_page(f"{library_server.url}/compare"))
    before = places_in_menu(page)
    page.get_by_test_id("stTopNavLink").get_by_text("Runs", exact=True).click()
    wait_for_table(page)
    page.wait_for_selector(OF_A_SIDEBAR, state="detached")
    assert places_in_menu(page) == [pytest.approx(each, abs=1) for each in before]


OF_A_SIDEBAR = "[data-testid=stSidebarUserContent] [data-testid=stElementContainer]"


def places_in_menu(page: Any) -> list[tuple[float, float]]:
    parts = ("stLogoLink", "stTopNavLink")
    drawn = [page.locator(f"[data-testid={part}]:visible").first for part in parts]
    boxes = [each.bounding_box() for each in drawn]
    return [(box["x"], box["y"]) for box in boxes]


def expect_names_and_tags_in_view(page: Any) -> None:
    heads = page.locator(f"{TABLE} [role=columnheader]").all_text_contents()
    assert {"Run", "α observed", "Tags"} <= set(heads[:-1])  # the last one may be cut
    cells, columns = table._cells(EXAMPLE), table._columns()
    for name in ("Run", table._figure_head("speedup_observed")):
        needed = page.evaluate(TEXT_WIDTH, cells[name])
        assert needed + _PADDING <= columns[name]["width"], cells[name]


def search_for(page: Any, query: str, found: str = "1 run") -> None:
    page.wait_for_function(ONE_SEARCH)  # the previous drawing's box may still be there
    search = page.get_by_label("Search", exact=True)
    search.fill(query)
    search.press("Enter")
    page.wait_for_selector(f"text={found}")
    wait_for_table(page)


def open_found(server: Server, open_page: Callable[..., Any], query: str) -> Any:
    """Open the page, and select the run that a search finds."""
    page = wait_for_table(open_page(f"{server.url}/runs"))
    expect_names_and_tags_in_view(page)
    search_for(page, query)
    select_row(page, 0)
    return page


def test_open_export_import_delete_and_undo(
    library_server: Server, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_found(library_server, open_page, "the first")
    exported = export(page)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Open in Watch").click()
    play_saved_run(page)
    page.get_by_role("link", name="Runs").first.click()
    wait_for_table(page)
    import_files(page, exported, tmp_path)
    search_for(page, "", "3 runs")
    select_row(page, 0)
    page.get_by_role("button", name="Delete").click()
    page.wait_for_selector("text=1 run deleted.")
    page.wait_for_selector("text=2 runs")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector("text=3 runs")


def play_saved_run(page: Any) -> None:
    """Check the first run in the player, there also by its own link, and close it."""
    page.wait_for_selector(STATUS)
    page.wait_for_function(f"() => document.querySelector('{STATUS}')?.dataset.state === 'done'")
    page.wait_for_selector('#root [data-testid="figure-alpha-observed"]')
    assert "the first run" in page.inner_text(STATUS)
    assert figure(page, "alpha-observed") == metrics(FIRST).alpha_observed
    page.reload()  # in another session
    page.wait_for_function(f"() => document.querySelector('{STATUS}')?.dataset.state === 'done'")
    page.get_by_role("button", name="Close").click()
    page.wait_for_function(
        f"() => document.querySelector('{STATUS}')?.dataset.state === 'recorded'"
    )
    page.wait_for_function("() => !location.search.includes('run=')")


def export(page: Any) -> Trace:
    """Export the selected run in each format, and return its trace."""
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Trace (JSON)").click()
    exported = trace_from_json(Path(download.value.path()).read_text())
    assert exported.rounds == FIRST.rounds
    with page.expect_download() as download:
        page.get_by_role("button", name="Rounds (CSV)").click()
    assert Path(download.value.path()).read_text() == rounds_csv(FIRST)
    with page.expect_download() as download:
        page.get_by_role("button", name="Replay (HTML)").click()
    assert Path(download.value.path()).read_text().startswith("<!doctype html>")
    return exported


def import_files(page: Any, exported: Trace, folder: Path) -> None:
    """Import an exported run, the same of another time, and a file that is no trace."""
    save_trace(exported, folder / "taken.json")
    save_trace(replace(exported, created="2026-01-03T03:04:05+00:00"), folder / "later.json")
    (folder / "none.json").write_text(f"<html>{SCRIPT}</html>")
    page.get_by_role("button", name="Import").click()
    files = [str(folder / name) for name in ("taken.json", "later.json", "none.json")]
    page.set_input_files("input[type=file]", files)
    page.locator('[data-testid="stFileChipName"] >> nth=2').wait_for()
    page.get_by_role("button", name="Import these").click()
    page.wait_for_selector("text=1 run imported. 1 was already in the library.")
    page.get_by_text("One file was not imported").wait_for()
    page.get_by_text("none.json: It is not JSON").wait_for()
    page.keyboard.press("Escape")


@pytest.mark.thorough
def test_older_runs_are_read_while_the_page_is_open(
    serve: Callable[..., Server], open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """Reading takes more than one slice of half a second; the page finishes without a click."""
    library = Library(tmp_path / "runs.db")
    save_run(library, FIRST, name="older")
    long = zlib.compress(b'"verdict":"accepted","verdict":"rejected"' + b" " * 30_000_000)
    with sqlite3.connect(library.path) as db:
        copy_first_run(db, 12)
        db.execute("UPDATE runs SET unread = 1, alpha_observed = NULL WHERE id LIKE 'id%'")
        db.execute("INSERT INTO traces SELECT run, ? FROM runs WHERE unread = 1", (long,))
    page = open_page(f"{serve(SPECVIZ_HOME=str(tmp_path)).url}/runs")
    left = page.get_by_text(re.compile("Still reading .* older run"))
    left.wait_for()
    left.wait_for(state="detached", timeout=60_000)
    wait_for_table(page)
    alphas = {row.summary.alpha_observed for row in library.find() if row.id.startswith("id")}
    assert alphas == {0.5}


@pytest.mark.thorough
def test_hostile_text_is_shown_literally(
    library_server: Server, open_page: Callable[..., Any]
) -> None:
    """On the page and in the player; a request for the picture would also fail the test."""
    page = open_found(library_server, open_page, "onerror")
    form = page.locator('[data-testid="stForm"]').inner_text()
    assert MARKUP[:40] in form.replace("\u2060", "")  # which prevents URLs from becoming links
    page.get_by_role("link", name="Open in Watch").click()
    page.wait_for_function(f"() => document.querySelector('{STATUS}')?.dataset.state === 'stopped'")
    page.wait_for_timeout(500)
    assert state_of(page) == "stopped"
    assert page.evaluate("() => window.hurt") is None
    assert page.locator('img[src="x"], a[href^="javascript"]').count() == 0

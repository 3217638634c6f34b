"""The player on a separate page, fed by the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from specviz.player.any_run import payload_of_run
from specviz.player.payload import JsonObject
from specviz.player.player_source import player_source
from specviz.record.trace import Trace
from tests.browser.reading import next_frame

RESULT = '[data-testid="lanes"] .result'
NOTE = '[data-testid="lanes"] .note >> nth=1'
COUNT = '[data-testid="lanes"] .count >> nth=1'
LANES, RACE = '[data-testid="lanes"]', '[data-testid="race"]'
LIVE = '[data-testid="now"]'
AHEAD, SPEED, SEEK = ('[data-testid="ahead"]', '[data-testid="speed"]', '[data-testid="seek"]')
THROUGHPUT = ".ch-throughput"

MOUNT = """(text) => {
  const parentElement = document.querySelector('#stage'), data = JSON.parse(text);
  window.unmountPlayer = mountPlayer({data, parentElement, setStateValue: () => {}});
}"""

# Removes the player with its element, and writes an address.
REMOVE = """(path) => {
  history.replaceState(null, "", path);
  const stage = document.createElement("div");
  stage.id = "stage";
  document.querySelector("#stage").replaceWith(stage);
  window.unmountPlayer();
  return new Promise((done) => setTimeout(done, 20)); // it closes a little later
}"""

Feed = Callable[..., Any]

ORIGIN = "http://player.test/"  # with local storage
_HTML = "text/html; charset=utf-8"


@pytest.fixture(scope="session")
def player_context(browser: Any) -> Iterator[Any]:
    """A context whose pages are blank but for the player's script and styles.

    One page stays open, so that its process draws the pages of all tests.
    """
    source, style = player_source()
    script = source.replace("export default", "window.mountPlayer =")
    html = f"<!doctype html><html lang=en><title>Player</title><style>{style}</style>"
    html += f"<body><div id=stage></div><script>{script}</script>"
    context = browser.new_context()
    context.route(f"{ORIGIN}anchor", lambda route: route.fulfill(body=""))
    context.route(ORIGIN, lambda route: route.fulfill(body=html, content_type=_HTML))
    context.new_page().goto(f"{ORIGIN}anchor")
    yield context
    context.close()


def blank_page(
    context: Any, *, width: int = 1140, height: int = 860, root: str = "16px", **media: str
) -> Any:
    """Open a page without a player, with an empty storage.

    Args:
        root: The font size of the document.
        media: Media features such as ``reduced_motion``.
    """
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(**media)
    page.goto(ORIGIN)
    start = "(root) => { localStorage.clear(); document.documentElement.style.fontSize = root; }"
    page.evaluate(start, root)
    return page


def send(data: JsonObject, page: Any) -> Any:
    """Send data to the page's player, which the first data creates."""
    page.evaluate(MOUNT, json.dumps(data))
    next_frame(page)
    return page


@pytest.fixture
def feed(player_context: Any) -> Iterator[Feed]:
    """Send data to the player on a new or an open page; fail on script errors."""
    pages: list[Any] = []
    errors: list[str] = []

    def show(data: JsonObject, page: Any = None, **options: Any) -> Any:
        if page is None:
            page = blank_page(player_context, **options)
            pages.append(page)
            page.on("pageerror", lambda error: errors.append(str(error)))
        return send(data, page)

    yield show
    for page in pages:
        page.close()
    assert errors == []


def remove_player(page: Any, path: str = "/") -> None:
    """Remove the player, as Streamlit does when it draws the whole page again."""
    page.evaluate(REMOVE, path)


def data_of(trace: Trace, state: str = "done", **others: Any) -> JsonObject:
    return payload_of_run(trace, run_id="own", state=state, label=state) | others


def in_state(data: JsonObject, state: str, *, growing: bool, waiting: bool = False) -> JsonObject:
    return {**data, "run": {**data["run"], "state": state, "waiting": waiting}, "growing": growing}


def words(page: Any, selector: str) -> str:
    return str(page.inner_text(selector)).replace("\u00a0", " ")


def making(data: JsonObject) -> JsonObject:
    running = in_state(data, "running", growing=True)
    return {**running, "run": {**running["run"], "decoded": False}}

"""The player on a separate page, fed by the test."""

from __future__ import annotations

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

MOUNT = """(data) => {
  const parentElement = document.querySelector('#stage');
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


@pytest.fixture
def feed(browser: Any) -> Iterator[Feed]:
    """Send data to the player on a new or an open page."""
    source, style = player_source()
    contexts: list[Any] = []

    def show(data: JsonObject, page: Any = None, *, width: int = 1140, root: str = "16px") -> Any:
        if page is None:
            context = browser.new_context(viewport={"width": width, "height": 860})
            contexts.append(context)
            page = context.new_page()
            page.route("http://player.test/", lambda route: route.fulfill(body=""))
            page.goto("http://player.test/")  # an origin with local storage
            page.set_content(f"<html style='font-size:{root}'><body><div id=stage></div>")
            page.add_style_tag(content=style)
            page.add_script_tag(content=source.replace("export default", "window.mountPlayer ="))
        page.evaluate(MOUNT, data)
        next_frame(page)
        return page

    yield show
    for context in contexts:
        context.close()


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

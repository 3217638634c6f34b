"""The page Servers in a browser, with the recorded answers of an engine, replayed slowly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any
from urllib.parse import urlencode

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from tests.browser.conftest import Server, wait_for_state
from tests.browser.reading import EMITTED, ROUND, at_rest, count_emitted, set_slider
from tests.browser.test_access import WITHOUT_STREAMLITS_LIST, serious_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import cut_off
from tests.browser.test_tune import tab_to
from tests.servers.replaying import Handler, Page, Served, replayed

pytestmark = pytest.mark.timeout(120)

MORE = "([tokens, few]) => document.querySelectorAll(tokens).length > few"
BOARD = '[data-testid="counters"]'
RUNS_HEADING = "saved until you delete them"


@pytest.fixture
def rest() -> Event:
    """Lets the engine send the rest of its answer."""
    return Event()


@pytest.fixture
def engine(rest: Event) -> Iterator[Served]:
    with replayed("vllm", "short") as server:
        path, page = next((p, each) for p, each in server.pages.items() if "completions" in p)
        server.pages[path] = held_page(page.body, rest)
        yield server
        rest.set()


def held_page(body: bytes, rest: Event) -> Page:
    """Return a page that sends the recorded answer's first event at once, the rest on request."""
    first, end, others = body.partition(b"\n\n")

    def behave(handler: Handler) -> None:
        handler.begin_stream()
        handler.wfile.write(first + end)
        handler.wfile.flush()
        rest.wait(60)
        handler.wfile.write(others)

    return Page(behave=behave)


def page_url(server: Server, engine: Served, **link: str) -> str:
    return f"{server.url}/servers?{urlencode({'server': engine.address, **link})}"


def connect(page: Any) -> Any:
    """Press Connect, which the address in a link requires."""
    page.get_by_role("button", name="Connect").click()
    page.wait_for_selector(".st-key-server_card")
    return page


def points(page: Any) -> int:
    return int(page.locator(BOARD).get_attribute("data-points"))


def wait_for_points(page: Any, count: int) -> None:
    page.wait_for_function(
        "([board, count]) => Number(document.querySelector(board)?.dataset.points) >= count",
        arg=[BOARD, count],
    )


def test_an_answer_arrives_round_by_round(
    server: Server, engine: Served, rest: Event, open_page: Callable[..., Any]
) -> None:
    page = connect(open_page(page_url(server, engine)))
    at_rest(page)
    slider = page.locator(".st-key-server_length input[type=range]")
    set_slider(page, "server_length", 2)
    length = slider.input_value()
    at_rest(page)
    prompt = page.locator(".st-key-server_prompt textarea")
    prompt.fill("A text of my own.")
    prompt.press("Control+Enter")
    at_rest(page)
    tab_to(page, "Ask")
    page.keyboard.press("Enter")
    wait_for_state(page, "running")
    page.wait_for_function(MORE, arg=[EMITTED, 0])
    before_count = count_emitted(page)
    rest.set()
    wait_for_state(page, "done")
    page.wait_for_function(MORE, arg=[EMITTED, before_count])
    page.locator(".sum-span", has_text="the target alone was not timed").wait_for()
    at_rest(page)
    assert_readable(page)
    assert serious_violations(page) == []
    page.get_by_role("link", name="Runs").first.click()
    page.wait_for_selector(".st-key-runs_table")
    page.get_by_role("link", name="Servers").first.click()
    page.wait_for_selector(ROUND)  # the answer is still shown
    assert page.locator(".st-key-server input").input_value() == engine.address
    assert slider.input_value() == length
    assert prompt.input_value() == "A text of my own."
    assert page.locator(".st-key-server_preset input").input_value() == "custom prompt"
    page.reload()
    page.wait_for_selector(ROUND)
    assert len(engine.bodies) == 1


@pytest.mark.thorough
def test_counters_are_appended_and_a_restart_is_marked(
    server: Server, engine: Served, open_page: Callable[..., Any]
) -> None:
    page = connect(
        open_page(
            page_url(server, engine, server_follow="true"), width=420, height=860, scheme="dark"
        )
    )
    wait_for_points(page, 2)
    page.eval_on_selector(BOARD, "each => { each.mark = true }")
    before = points(page)
    wait_for_points(page, before + 2)
    assert page.eval_on_selector(BOARD, "each => each.mark")  # the same element: no flicker
    counted = engine.pages["/metrics"].body.decode()
    reset = re.sub(r" [\d.]+$", " 1.0", counted, flags=re.MULTILINE)
    engine.pages["/metrics"] = Page(body=reset.encode())
    page.locator(BOARD).get_by_text("the engine was restarted").wait_for()
    page.locator(f"{BOARD} .anew").first.wait_for(state="attached")
    assert_readable(page)
    assert cut_off(page) == []
    page.add_style_tag(content=WITHOUT_STREAMLITS_LIST)
    known = points(page)
    page.locator(".st-key-server_follow label").click()
    page.locator(BOARD).wait_for(state="detached")
    page.locator(".st-key-server_follow label").click()
    wait_for_points(page, known)  # all points again, although they were sent before
    page.locator(".st-key-server_follow label").click()
    page.locator(BOARD).wait_for(state="detached")
    at_rest(page)
    assert serious_violations(page) == []


class LateTimer:
    """Repeats a timer message of the previous page right after each change of page."""

    def __init__(self) -> None:
        self.timer, self.page, self.repeats = b"", "", 0

    def __call__(self, browser: Any) -> None:
        streamlit = browser.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            streamlit.send(message)
            rerun = BackMsg.FromString(message).rerun_script if isinstance(message, bytes) else None
            if rerun and rerun.is_auto_rerun:
                self.timer, self.page = message, rerun.page_script_hash
            elif rerun and self.timer and rerun.page_script_hash not in ("", self.page):
                self.repeats += 1
                streamlit.send(self.timer)

        browser.on_message(pass_on)


@pytest.mark.thorough
def test_leaving_a_page_while_a_fragment_draws(
    server: Server, engine: Served, open_page: Callable[..., Any]
) -> None:
    page, late = open_page("about:blank", stage=True), LateTimer()
    page.route_web_socket(re.compile("_stcore/stream"), late)
    page.goto(page_url(server, engine, server_follow="true"))
    connect(page)
    wait_for_points(page, 3)
    page.get_by_role("link", name="Runs").first.click()
    page.get_by_text(RUNS_HEADING).wait_for()
    page.wait_for_timeout(1500)  # a fragment's error would be shown by now
    assert late.repeats
    assert page.get_by_text(RUNS_HEADING).is_visible()
    assert page.get_by_text("Bad delta path").count() == 0
    assert page.url.startswith(f"{server.url}/runs")


def test_an_unreachable_server(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/servers?server=http%3A%2F%2F127.0.0.1%3A9")
    page.get_by_role("button", name="Connect").click()
    page.get_by_text("cannot be reached").wait_for()
    assert page.locator('[data-testid="stException"]').count() == 0
    assert page.locator(".st-key-server_ask button").is_disabled()

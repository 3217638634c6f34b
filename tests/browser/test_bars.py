"""The draggable bars: mouse, keys, and the values sent to Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from specviz.theory.examples import WORKED_EXAMPLE
from tests.browser.conftest import Demo, Server
from tests.browser.contexts import Contexts
from tests.browser.test_access import serious_violations

HEARD = '[data-testid="stCode"] code'
TOKENS = range(len(WORKED_EXAMPLE.labels))


@pytest.fixture(scope="module")
def shared_page(demo: Demo, contexts: Contexts) -> Iterator[tuple[Any, list[str]]]:
    """A page for all tests, and its script errors."""
    errors: list[str] = []
    page = contexts.open(demo.url)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{demo.url}/?bars=1")
    page.wait_for_selector(handle("target", 1))
    page.wait_for_selector(HEARD)
    yield page, errors
    contexts.close(page)


@pytest.fixture
def page(shared_page: tuple[Any, list[str]]) -> Iterator[Any]:
    """The page with the initial bars, which it has again after the test."""
    page, errors = shared_page
    yield page
    page.set_viewport_size({"width": 1440, "height": 900})
    page.click(".bars .reset")
    for model in ("draft", "target"):
        wait_to_receive(page, model)
    assert errors == []


def opened(open_page: Callable[..., Any], url: str, **options: Any) -> Any:
    page = open_page(url, **options)
    page.wait_for_selector(handle("target", 1))
    page.wait_for_selector(HEARD)
    return page


def handle(model: str, token: int) -> str:
    return f'[data-testid="{model}-{token}"]'


def shown(page: Any, model: str) -> list[float]:
    return [float(page.get_attribute(handle(model, at), "aria-valuenow")) for at in TOKENS]


def received(page: Any) -> dict[str, tuple[float, ...]]:
    return ast.literal_eval(page.inner_text(HEARD))


def wait_to_receive(page: Any, model: str) -> tuple[float, ...]:
    """Wait until Python has the values that the browser shows."""
    for _ in range(600):
        now = received(page)[model]
        if list(now) == pytest.approx(shown(page, model), abs=1e-4):
            return now
        page.wait_for_timeout(50)
    raise AssertionError((received(page), shown(page, model)))


def drag(page: Any, model: str, token: int, by: int) -> None:
    box = page.locator(handle(model, token)).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(x, y + by * step / 8)
    page.mouse.up()


def test_a_drag_moves_one_bar_and_the_others_in_proportion(page: Any) -> None:
    before = WORKED_EXAMPLE.draft
    drag(page, "draft", 0, by=60)
    after = wait_to_receive(page, "draft")
    assert after[0] < before[0] - 0.08
    assert sum(after) == pytest.approx(1.0, abs=1e-9)
    grown = (1.0 - after[0]) / (1.0 - before[0])
    assert after[1:] == pytest.approx([each * grown for each in before[1:]], abs=1e-9)
    assert received(page)["target"] == pytest.approx(WORKED_EXAMPLE.target)


def test_a_bar_dragged_out_of_the_plot_stays_a_probability(page: Any) -> None:
    drag(page, "target", 1, by=900)
    assert wait_to_receive(page, "target")[1] == 0.0
    for _ in range(3):
        drag(page, "target", 1, by=-900)
    assert wait_to_receive(page, "target")[1] == pytest.approx(1.0)
    assert sum(received(page)["target"]) == pytest.approx(1.0, abs=1e-9)


def test_the_keys_move_a_bar(page: Any) -> None:
    page.locator(handle("draft", 2)).focus()
    for key in ("ArrowUp", "ArrowRight", "PageUp", "ArrowDown"):
        page.keyboard.press(key)
    assert wait_to_receive(page, "draft")[2] == pytest.approx(0.21)
    page.keyboard.press("End")
    assert wait_to_receive(page, "draft") == pytest.approx((0, 0, 1, 0, 0))
    page.keyboard.press("Home")
    after = wait_to_receive(page, "draft")
    assert after == pytest.approx([each / 0.9 for each in (0.5, 0.2, 0, 0.15, 0.05)])
    assert page.get_attribute(handle("draft", 2), "aria-valuetext") == "0.0 %"


def test_reset_restores_the_initial_bars(page: Any) -> None:
    drag(page, "draft", 0, by=60)
    drag(page, "target", 2, by=-60)
    wait_to_receive(page, "target")
    page.click(".bars .reset")
    assert wait_to_receive(page, "draft") == pytest.approx(WORKED_EXAMPLE.draft)
    assert wait_to_receive(page, "target") == pytest.approx(WORKED_EXAMPLE.target)


def test_a_slow_drag_is_sent_before_it_ends(page: Any) -> None:
    box = page.locator(handle("draft", 0)).bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + 4, box["y"] + 43)
    assert wait_to_receive(page, "draft")[0] < 0.45
    page.mouse.up()


def test_they_open_with_the_values_from_python_and_labels_are_text_with_visible_escapes(
    demo: Demo, open_page: Callable[..., Any]
) -> None:
    page = opened(open_page, f"{demo.url}/?bars=1&unsafe=1")
    assert shown(page, "draft") == pytest.approx(WORKED_EXAMPLE.draft)
    assert received(page)["target"] == pytest.approx(WORKED_EXAMPLE.target)
    assert page.inner_text(".bars .names span >> nth=0") == "<b>x</b>\\u202e"
    assert page.locator(".bars .names b").count() == 0


def test_touch_drags_a_bar_by_its_top_and_scrolls_elsewhere(page: Any) -> None:
    touch = """([model, from]) => {
      const bar = document.querySelector(`[data-testid="${model}"]`).parentElement;
      const box = bar.querySelector(from).getBoundingClientRect();
      const at = {pointerId: 7, pointerType: 'touch', isPrimary: true, bubbles: true, button: 0,
        clientX: box.x + 5, clientY: box.y + (from === '.grab' ? 16 : box.height - 2)};
      bar.setPointerCapture = () => {};
      bar.querySelector(from).dispatchEvent(new PointerEvent('pointerdown', at));
      bar.dispatchEvent(new PointerEvent('pointermove', {...at, clientY: at.clientY + 30}));
      bar.dispatchEvent(new PointerEvent('pointerup', at));
    }"""
    page.evaluate(touch, ["draft-0", ".ground"])
    assert shown(page, "draft") == pytest.approx(WORKED_EXAMPLE.draft)
    page.evaluate(touch, ["draft-0", ".grab"])
    assert wait_to_receive(page, "draft")[0] < 0.45


@pytest.mark.thorough
def test_a_drag_updates_the_bias_page(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/bias")
    page.wait_for_selector(handle("target", 1))
    distance = "text=the distance between the models, 0.350"
    page.wait_for_selector(distance)
    drag(page, "draft", 0, by=60)
    page.wait_for_selector(distance, state="detached")
    page.click(".bars .reset")
    page.wait_for_selector(distance)


def test_long_names_wrap_in_a_narrow_column(page: Any) -> None:
    page.set_viewport_size({"width": 320, "height": 900})
    names = page.locator(".bars .names span")
    assert max(map(len, names.all_inner_texts())) > 10
    assert names.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).length") == 0


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(420, "dark"), pytest.param(1100, "light", marks=pytest.mark.thorough)],
)
def test_they_fit_and_are_accessible(
    demo: Demo, open_page: Callable[..., Any], scheme: str, width: int
) -> None:
    page = opened(open_page, f"{demo.url}/?bars=1&full=1", scheme=scheme, width=width)
    assert serious_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    names = page.locator(".bars .names span")
    assert names.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).length") == 0
    page.locator(handle("target", 3)).focus()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"

"""Accessibility: axe-core, the keyboard, reduced motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Demo, Server, wait_for_pair
from tests.browser.reading import END, ROUND, TOUR, next_frame, seek, wait_until_still
from tests.traces import make_trace

SERIOUS = {"serious", "critical"}
# Streamlit's own page list on narrow pages has accessibility faults.
WITHOUT_STREAMLITS_LIST = "[data-testid=stSidebarNavItems] { display: none; }"
# Selectors are not reported, and region is a moderate rule that examines every element.
_OPTIONS: dict[str, Any] = {
    "resultTypes": ["violations"], "selectors": False, "rules": {"region": {"enabled": False}},
}  # fmt: skip
_CONTRAST: dict[str, Any] = {
    "resultTypes": ["violations"], "selectors": False, "runOnly": ["color-contrast"],
}  # fmt: skip


# Two seconds and at least a dozen frames of the player: animations, and candidates that wait
# for their verdict.
WATCH_MOTION = """() => new Promise((done) => {
  const waits = '[data-testid=token][data-state=drafted]';
  const seen = {frames: 0, moving: 0, drafted: 0}, began = performance.now();
  const look = () => {
    const player = document.querySelector('[data-testid=player]');
    seen.frames += 1;
    seen.moving += document.getAnimations().filter((each) =>
      each.playState === 'running' && each.effect.target.closest('[data-testid=player]')).length;
    seen.drafted += player.querySelectorAll(waits).length;
    if (performance.now() - began < 2000 || seen.frames < 12) requestAnimationFrame(look);
    else done(seen);
  };
  look();
})"""


def serious_violations(page: Any, *, only_contrast: bool = False) -> list[str]:
    """Return what axe-core finds; colours are all that another colour scheme changes."""
    from axe_playwright_python.sync_playwright import Axe

    wait_until_still(page)
    found = Axe().run(page, options=_CONTRAST if only_contrast else _OPTIONS).response["violations"]
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


def own_violations(page: Any) -> list[str]:
    """Hide Streamlit's page list, and return what axe-core finds elsewhere."""
    page.add_style_tag(content=WITHOUT_STREAMLITS_LIST)
    return serious_violations(page)


def test_the_keyboard_drives_watch_without_a_serious_violation(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = open_page(server.url)
    wait_for_pair(page)  # idle: Streamlit fades elements that it is about to redraw
    cursor = page.locator('[data-testid="seek"]')
    page.click('[data-testid="play"]')
    next_frame(page)
    before = int(cursor.input_value())
    page.keyboard.press("ArrowRight")
    next_frame(page)
    assert int(cursor.input_value()) == before + 1
    page.keyboard.press("Home")
    next_frame(page)
    assert int(cursor.input_value()) == 0
    cursor.focus()
    seek(page, END)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f'.sv[data-theme="{scheme}"]')
        assert serious_violations(page, only_contrast=scheme == "dark") == [], scheme


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1024, "light"),
        (420, "dark"),
        pytest.param(1024, "dark", marks=pytest.mark.thorough),
        pytest.param(420, "light", marks=pytest.mark.thorough),
    ],
)
def test_no_serious_violation_in_the_tour_and_in_the_reasons(
    demo: Demo, open_page: Callable[..., Any], width: int, scheme: str
) -> None:
    link = demo.show("axe", make_trace(["a", "ar", "a"]), tour="force")
    page = open_page(link, width=width, height=860, scheme=scheme, tour=True)
    page.wait_for_selector(f'.sv[data-theme="{scheme}"] {TOUR}:visible')
    assert serious_violations(page) == []
    page.click(f"{TOUR} .skip")
    page.click(".sum-why summary")
    page.wait_for_selector(".sum-reasons:visible")
    assert serious_violations(page) == []


@pytest.mark.thorough
def test_reduced_motion_shows_whole_rounds(server: Server, browser: Any) -> None:
    context = browser.new_context(reduced_motion="reduce")
    context.add_init_script("localStorage.setItem('specviz.pace', 'now')")
    context.add_init_script("localStorage.setItem('specviz.tour', 'done')")
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector(ROUND)
    seen = page.evaluate(WATCH_MOTION)
    assert seen["frames"] > 10
    assert (seen["moving"], seen["drafted"]) == (0, 0)
    context.close()

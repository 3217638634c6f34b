"""The models of this machine in the browser: chosen with the keyboard."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import next_frame, wait_for_script
from tests.ui.machine_folder import use_models, write_models

LINK = "/?pair=Machine&pair_panel=true&length=16&target_body=none"
LIST = '[data-testid="stSelectboxVirtualDropdown"]'


@pytest.fixture(scope="module")
def machine(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        use_models(write_models(home / "models"), home, patch)
        return serve(HOME=str(home), SPECVIZ_HOME=str(home / "specviz"))


def picker(page: Any, key: str) -> Any:
    """Return the control, once it can be used."""
    from playwright.sync_api import expect

    box = page.locator(f".st-key-{key} input")
    expect(box).to_be_enabled()
    return box


def choose(page: Any, key: str, text: str) -> None:
    """Type into the control until its list is open, and take the first match with Enter."""
    from playwright.sync_api import Error

    options = page.locator(f"{LIST} [role=option]", has_text=text)
    for _ in range(5):  # a list closes if the page scrolls, redraws or replaces it
        with contextlib.suppress(Error):
            picker(page, key).scroll_into_view_if_needed()
            next_frame(page)
            picker(page, key).focus()
            page.keyboard.type(text)
            options.first.wait_for(timeout=3000)
            page.keyboard.press("Enter")
            page.wait_for_function(  # not if a redraw has closed the list before Enter
                "([box, typed]) => { const { value } = document.querySelector(box);"
                " return value.length > typed.length && value.toLowerCase().startsWith(typed); }",
                arg=[f".st-key-{key} input", text],
                timeout=10_000,
            )
            wait_for_script(page)  # a redraw that was in progress may have undone the choice
            if page.locator(f".st-key-{key} input").input_value().lower().startswith(text):
                return
        page.keyboard.press("Escape")
    raise AssertionError(f"no list with {text}")


@pytest.mark.thorough
def test_a_target_is_found_by_typing_and_used_without_a_draft(
    machine: Server, open_page: Callable[..., Any]
) -> None:
    from playwright.sync_api import expect

    page = open_page(machine.url + LINK)
    choose(page, "target_model", "large")
    drafts = page.locator(".st-key-draft_model input")
    same = '.st-key-draft_model input[value^="small · same tokenizer"]'
    page.wait_for_selector(same, timeout=240_000)
    expect(drafts).to_have_count(1)  # the control of the previous default is gone
    choose(page, "draft_model", "none")
    expect(page).to_have_url(re.compile("target_model=large&draft_model=none"))
    expect(page.locator(".st-key-run button")).to_have_text("Load this model and run")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [420, pytest.param(1440, marks=pytest.mark.thorough)])
def test_the_list_shows_whole_descriptions_inside_the_window(
    machine: Server, open_page: Callable[..., Any], width: int
) -> None:
    page = open_page(machine.url + LINK, width=width, height=860)
    wait_for_script(page)
    if width == 420:
        page.get_by_test_id("stExpandSidebarButton").click()
    picker(page, "target_model").scroll_into_view_if_needed()  # a list closes if the page scrolls
    next_frame(page)
    picker(page, "target_model").click()
    place = page.locator(LIST).bounding_box()
    assert place["x"] + place["width"] <= width
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert page.locator(f"{LIST} [role=option]").evaluate_all(cut) == 0

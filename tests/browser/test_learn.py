"""The lesson in a browser: keyboard, phone, both themes, stored progress."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any

import pytest

from specviz.ui.learn.checks import text_of
from tests.browser.conftest import Server, wait_for_pair, wait_for_state
from tests.browser.reading import at_rest, next_frame, run_to_its_end, wait_for_script
from tests.browser.test_access import serious_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import STREAMLIT_S_OWN

TASK = ".st-key-learn_task"
ANSWER = f"{TASK} [data-testid=stAlert]"
RUN = ".st-key-run button"
SHORT = "length=24&target_body=none"


def opened(server: Server, open_page: Callable[..., Any], link: str, **how: Any) -> Any:
    page = open_page(f"{server.url}/learn?{link}", **how)
    page.wait_for_selector(ANSWER)
    return page


def go_to(page: Any, server: Server, link: str) -> None:
    """Navigate in the same tab, so that its runs are available."""
    tab = re.search(r"tab=\w+", page.url)
    page.goto(f"{server.url}/learn?{link}{'&' + tab[0] if tab else ''}")
    page.wait_for_selector(ANSWER)


def expect_sound(page: Any) -> None:
    """Assert readable text on a phone, nothing too wide, and no serious axe-core finding."""
    at_rest(page)
    assert_readable(page)
    page.evaluate("own => document.querySelectorAll(own).forEach(e => e.remove())", STREAMLIT_S_OWN)
    assert serious_violations(page) == []


def press(page: Any, selector: str) -> None:
    """Press a button with the keyboard."""
    page.wait_for_selector(f"{selector}:enabled")
    wait_for_script(page)  # a button that is drawn again loses the focus
    page.locator(selector).first.focus()
    page.keyboard.press("Enter")


def words_of(step: str, result: str) -> str:
    """Return the longest part of the text for a result that has no numbers."""
    parts = string.Formatter().parse(text_of(f"steps/{step}")["said"][result])
    return max((words for words, *_ in parts), key=len).strip()


def expect_answer(page: Any, step: str, result: str) -> None:
    """Wait until the check of a step has this result."""
    page.wait_for_function(
        """([answer, words]) => document.querySelector(answer)?.innerText.includes(words)""",
        arg=[ANSWER, words_of(step, result)], timeout=90_000,
    )  # fmt: skip


def row(index: int) -> str:
    return f'[data-testid="round"][data-index="{index}"]'


def to_the_end(page: Any) -> None:
    page.locator('[data-testid="seek"]').focus()
    page.keyboard.press("End")
    next_frame(page)


def answer(page: Any, text: str) -> None:
    box = page.locator(f"{TASK} [data-testid=stNumberInputField]")
    box.focus()
    box.press("Control+a")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


@pytest.mark.thorough
def test_a_step_is_done_from_the_keyboard_on_a_phone_and_kept(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = opened(server, open_page, f"step=drafting&gamma=3&{SHORT}", width=420, height=900)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect_answer(page, "drafting", "none")
    press(page, RUN)
    wait_for_state(page, "done")
    expect_answer(page, "drafting", "count")
    to_the_end(page)
    accepted = page.locator(f"{row(1)} [data-state=accepted]").count()
    answer(page, str(accepted + 1))
    expect_answer(page, "drafting", "wrong")
    answer(page, str(accepted))
    expect_answer(page, "drafting", "done")
    page.wait_for_function("localStorage.getItem('specviz.learn')?.includes('drafting')")
    page.goto(f"{server.url}/learn")
    page.wait_for_selector(ANSWER)
    page.wait_for_selector('button:has-text("✓ 2.")')


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    server: Server, open_page: Callable[..., Any], scheme: str
) -> None:
    for link in ("learn=steps", "step=residual", "learn=challenges&step=half_c"):
        page = opened(server, open_page, link, scheme=scheme)
        wait_for_pair(page)  # idle: Streamlit fades elements that it is about to redraw
        page.set_viewport_size({"width": 420, "height": 900})
        expect_sound(page)


@pytest.mark.thorough
def test_guesses_are_made_from_the_keyboard(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/learn?learn=guess&guess_seed=5", width=420, height=900)
    submit = '[data-testid="stFormSubmitButton"] button'
    page.wait_for_selector(submit, timeout=30_000)
    page.locator(".st-key-guess_round input[type=radio]").first.focus()
    page.keyboard.press("ArrowRight")
    press(page, submit)
    page.wait_for_selector("text=1 answered")
    expect_sound(page)
    press(page, ".st-key-guess_next button")
    page.wait_for_selector(submit)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("width", "beside"), [(1440, True), pytest.param(420, False, marks=pytest.mark.thorough)]
)
def test_the_player_is_beside_the_step_where_both_fit(
    server: Server, open_page: Callable[..., Any], width: int, beside: bool
) -> None:
    page = opened(server, open_page, "step=memory", width=width, height=900)
    page.wait_for_selector(f"{TASK} [data-testid=lesson-picture]")
    at_rest(page)
    task, player = page.evaluate(
        "all => all.map(each => document.querySelector(each).getBoundingClientRect().toJSON())",
        [TASK, "#root [data-testid=player]"],
    )
    assert (player["left"] >= task["right"]) is beside
    assert (player["top"] >= task["bottom"]) is not beside


def test_the_acceptance_probability_follows_the_bars(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = opened(server, open_page, "step=rejection")
    sentence = f"{TASK} .st-key-learn_picture [data-testid=stMarkdownContainer] >> nth=0"
    before = page.inner_text(sentence)
    page.locator("[data-testid=draft-0]").focus()
    page.keyboard.press("PageUp")
    page.wait_for_function(
        "([words]) => !document.querySelector('.st-key-learn_picture').innerText.includes(words)",
        arg=[before],
    )


@pytest.mark.thorough
def test_a_step_is_solved_while_its_run_is_still_timed(
    timing: Server, open_page: Callable[..., Any]
) -> None:
    page = opened(timing, open_page, "step=memory&length=96&target_body=none")
    press(page, RUN)
    page.get_by_test_id("status").filter(has_text="decoded").wait_for(timeout=120_000)
    with timing.paused_workers():
        expect_answer(page, "memory", "measuring")
        assert page.get_attribute('[data-testid="status"]', "data-state") == "running"
        assert not re.search(r"\d ms", page.inner_text(ANSWER))
    wait_for_state(page, "done")
    page.wait_for_function(
        "(answer) => /\\d ms/.test(document.querySelector(answer)?.innerText)", arg=ANSWER
    )


@pytest.mark.thorough  # each check alone is tested without a browser
def test_the_lesson_from_the_first_step_to_the_last(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = opened(server, open_page, f"step=memory&gamma=5&{SHORT}", width=420, height=900)

    def run(step: str, link: str, result: str) -> None:
        go_to(page, server, f"step={step}&length=24&{link}")
        wait_for_state(page, "done")  # the run of the step before
        page.locator("[data-testid=round]").last.evaluate("row => { row.dataset.before = '' }")
        press(page, RUN)
        page.wait_for_selector("[data-testid=round][data-before]", state="detached")
        wait_for_state(page, "done")
        expect_answer(page, step, result)

    press(page, RUN)
    wait_for_state(page, "done")
    expect_answer(page, "memory", "done")
    run("memory", "target_body=30M", "compared")
    run("drafting", "target_body=none&gamma=3", "count")
    to_the_end(page)
    answer(page, str(page.locator(f"{row(1)} [data-state=accepted]").count()))
    expect_answer(page, "drafting", "done")
    run("one_pass", "target_body=none&gamma=1", "long")
    run("one_pass", "target_body=none&gamma=8", "done")
    run("rejection", "target_body=none&gamma=5&temperature=1", "odds")
    to_the_end(page)
    found = re.search(r"round (\d+)", page.inner_text(ANSWER))
    assert found is not None
    rejected = f"{row(int(found[1]) - 1)} [data-state=rejected]"
    page.evaluate("document.querySelector('.rounds .scroll').scrollTop = 0")
    while not page.locator(rejected).count():  # only rows in view are drawn
        page.evaluate("document.querySelector('.rounds .scroll').scrollTop += 40")
        next_frame(page)
    page.locator(rejected).click()
    next_frame(page)
    odds = re.search(r"\.\d+", page.inner_text('[data-testid="verdict-card"] .vd-edge'))
    assert odds is not None
    page.keyboard.press("Escape")
    answer(page, f"0{odds[0]}")
    expect_answer(page, "rejection", "done")
    go_to(page, server, "step=residual")
    page.locator(f"{TASK} [data-testid=stCheckbox] input").focus()
    page.keyboard.press("Space")
    expect_answer(page, "residual", "choose")
    page.locator(f"{TASK} input[type=radio]").first.focus()
    page.keyboard.press("Space")
    expect_answer(page, "residual", "done")
    page.wait_for_function("localStorage.getItem('specviz.learn')?.includes('residual')")
    go_to(page, server, "step=gamma")
    for gamma in (1, 3, 5, 8):  # those run in earlier steps
        answer(page, str(gamma))
        page.wait_for_timeout(1_500)
        if words_of("gamma", "done") in page.inner_text(ANSWER):
            break
    expect_answer(page, "gamma", "done")
    go_to(page, server, "step=costs")
    page.locator(f"{TASK} [data-testid=stSlider] input").focus()
    page.keyboard.press("Home")
    for _ in range(100):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(400)
        if words_of("costs", "done") in page.inner_text(ANSWER):
            break
    expect_answer(page, "costs", "done")
    go_to(page, server, "step=loses&length=96&target_body=none&gamma=16&temperature=2")
    for _ in range(4):  # on a busy machine a timing may be too noisy
        run_to_its_end(page)
        page.wait_for_timeout(1_500)
        if words_of("loses", "done") in page.inner_text(ANSWER):
            break
    expect_answer(page, "loses", "done")
    kept = page.evaluate("JSON.parse(localStorage.getItem('specviz.learn'))")
    assert len(kept) >= 8

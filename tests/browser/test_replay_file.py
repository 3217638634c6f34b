"""A replay file plays from disk without a network, and shows the figures of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.player.replay import comparison_replay_html, replay_html
from tests.browser.conftest import Server
from tests.browser.long_runs import recorded
from tests.browser.reading import END, ROUND, TEXT_TOKENS, next_frame, seek, text_of
from tests.browser.replay_files import Opener, opener
from tests.browser.test_access import serious_violations
from tests.browser.test_unsafe_text import SHOWN, unsafe_trace
from tests.player.races import thrifty, wasteful

FIGURES = """() => Object.fromEntries([...document.querySelectorAll('[data-testid^="figure-"]')]
  .map((each) => [each.dataset.testid, [each.dataset.value, each.textContent]]))"""


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


def test_it_plays_from_disk(open_file: Opener) -> None:
    trace = recorded()
    page = open_file(replay_html(trace))
    assert page.inner_text('[data-testid="play"]') == "Pause"
    before = int(page.input_value('[data-testid="seek"]'))
    page.wait_for_function(
        "(before) => Number(document.querySelector('[data-testid=\"seek\"]').value) >= before + 4",
        arg=before,
        timeout=10_000,
    )
    seek(page, END)
    assert text_of(page).startswith("".join(trace.prompt.token_texts))
    assert page.inner_text(".lanes .count >> nth=0") == f"{len(trace.token_ids)} tokens"
    assert page.title() == trace.pair.name


def test_a_downloaded_replay_has_the_figures_of_the_page(
    open_file: Opener, server: Server, open_page: Callable[..., Any]
) -> None:
    dashboard = open_page(server.url)
    dashboard.wait_for_selector(".st-key-download_replay button:enabled")
    dashboard.wait_for_selector(ROUND)
    with dashboard.expect_download() as waiting:
        dashboard.click(".st-key-download_replay button")
    assert waiting.value.suggested_filename == "specviz-recorded-replay.html"
    page = open_file(waiting.value.path().read_text(encoding="utf-8"))
    figures = page.evaluate(FIGURES)
    assert len(figures) > 5
    assert figures == dashboard.evaluate(FIGURES)
    assert text_at_end(page) == text_at_end(dashboard)


def text_at_end(page: Any) -> str:
    seek(page, END)
    return text_of(page)


def test_hostile_text_is_shown_literally(open_file: Opener) -> None:
    trace = unsafe_trace()
    name = "".join(SHOWN)
    trace = replace(trace, pair=replace(trace.pair, name=name))
    page = open_file(replay_html(trace, name=name))
    seek(page, END)
    prompt = page.eval_on_selector_all(
        f'{TEXT_TOKENS}[data-state="prompt"]', "all => all.map((each) => each.textContent)"
    )
    assert prompt == list(SHOWN.values())
    assert "<script>window.broken=1</script>" in page.inner_text("h1")
    assert "\u202e" not in page.content()
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 2


def test_hostile_names_and_results_are_shown_literally(open_file: Opener) -> None:
    label = "<img src=x onerror=window.broken=1>\u202e"
    page = open_file(
        comparison_replay_html(
            [label, "other"],
            [unsafe_trace(), recorded()],
            verdict=label,
            table=[["lane", "τ"], [label, "1"], ["other", "2"]],
        )
    )
    page.keyboard.press("End")
    next_frame(page)
    shown = label.replace("\u202e", r"\u202e")
    assert page.inner_text('[data-testid="replay-verdict"]') == shown
    assert page.inner_text("tbody th >> nth=0") == shown
    assert page.inner_text(".racer-name >> nth=0") == shown
    assert page.evaluate("[window.broken, document.images.length]") == [None, 0]


def test_an_injected_script_does_not_run(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "replay.html"
    injected = "<script>window.broken = 1</script><img src='http://127.0.0.1:9/x'></body>"
    path.write_text(replay_html(recorded()).replace("</body>", injected), encoding="utf-8")
    page = browser.new_page()
    with page.expect_event("requestfailed") as waiting:
        page.goto(path.as_uri())
        page.wait_for_selector(ROUND)
    assert page.evaluate("window.broken") is None
    assert (waiting.value.url, waiting.value.failure) == ("http://127.0.0.1:9/x", "csp")
    page.close()


def test_no_serious_violation(browser: Any, tmp_path: Path) -> None:
    labels, table = ["one", "two"], [["lane", "τ"], ["one", "4.0"], ["two", "1.0"]]
    path = tmp_path / "replay.html"
    html = comparison_replay_html(labels, [thrifty(), wasteful()], verdict="One.", table=table)
    path.write_text(html, encoding="utf-8")
    page = browser.new_page(bypass_csp=True, color_scheme="light")  # the checker is a script
    page.goto(path.as_uri())
    page.keyboard.press("End")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f'.sv[data-theme="{scheme}"]')
        next_frame(page)
        assert serious_violations(page, only_contrast=scheme == "dark") == [], scheme
    page.close()


def test_the_theme_follows_the_browser(open_file: Opener) -> None:
    page = open_file(replay_html(recorded()), color_scheme="dark")
    assert page.get_attribute(".sv", "data-theme") == "dark"
    page.emulate_media(color_scheme="light")
    page.wait_for_selector('.sv[data-theme="light"]', timeout=5_000)

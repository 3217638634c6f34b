"""What a person sees on the page, read back."""

from __future__ import annotations

from typing import Any

STATUS = '[data-testid="status"]'
ROUND = '[data-testid="round"]'
TEXT_TOKENS = '[data-testid="text-pane"] [data-testid="token"]'


def state_of(page: Any) -> str:
    return str(page.get_attribute(STATUS, "data-state"))


def figure(page: Any, name: str) -> float | None:
    value = page.get_attribute(f'[data-testid="figure-{name}"]', "data-value")
    return float(value) if value else None


def text_of(page: Any) -> str:
    """The text pane's tokens joined, as they are drawn."""
    return str(
        page.eval_on_selector_all(TEXT_TOKENS, "all => all.map(t => t.textContent).join('')")
    )


def count_emitted(page: Any) -> int:
    return int(
        page.eval_on_selector_all(
            TEXT_TOKENS, "all => all.filter(t => t.dataset.state !== 'prompt').length"
        )
    )


def click_run(page: Any) -> None:
    page.click(".st-key-run button")


def set_slider(page: Any, key: str, presses: int) -> None:
    """Move a slider by whole steps, as a person with a keyboard does."""
    thumb = page.locator(f".st-key-{key} input[type=range]")
    thumb.focus()
    for _ in range(abs(presses)):
        page.keyboard.press("ArrowRight" if presses > 0 else "ArrowLeft")


def download_trace(page: Any) -> str:
    """The text of the file behind the button."""
    page.wait_for_selector(".st-key-download_trace button:enabled")
    with page.expect_download() as waiting:
        page.click(".st-key-download_trace button")
    return str(waiting.value.path().read_text(encoding="utf-8"))


def next_frame(page: Any) -> None:
    """Until what was just done is drawn: views draw in the frame after a change."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def seek(page: Any, event: float) -> None:
    """To an event; in a race, to a second."""
    page.eval_on_selector(
        '[data-testid="seek"]',
        """(range, value) => {
          range.value = value;
          range.dispatchEvent(new Event('input', {bubbles: true}));
        }""",
        event,
    )
    next_frame(page)


def visible_rounds(page: Any) -> list[int]:
    """The numbers of the rows that are in the document, as they stand."""
    return list(page.eval_on_selector_all(ROUND, "all => all.map(r => Number(r.dataset.index))"))

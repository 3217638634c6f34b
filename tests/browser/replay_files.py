"""Replay files opened from disk, with the network off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from tests.browser.reading import next_frame

Opener = Callable[..., Any]


_offline: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by browser


@contextmanager
def opener(browser: Any, folder: Path) -> Iterator[Opener]:
    """Open HTML as a file; fail on requests, console messages and errors."""
    pages: list[Any] = []
    trouble: list[str] = []
    if browser not in _offline:
        _offline[browser] = _offline_context(browser, folder)
    context = _offline[browser]

    def judge(route: Any) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            trouble.append(route.request.url)
            route.abort()

    def open_file(html: str, *, width: int = 1440, height: int = 1000, **media: str) -> Any:
        path = folder / f"replay-{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(**media)
        page.route("**", judge)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector('[data-testid="player"]')
        next_frame(page)
        return page

    yield open_file
    for page in pages:
        page.evaluate("localStorage.clear()")  # all files share it
        page.close()
    assert trouble == []


def _offline_context(browser: Any, folder: Path) -> Any:
    """Return a context without a network; a page of it stays open, whose process draws others."""
    anchor = folder / "anchor.html"
    anchor.write_text("", encoding="utf-8")
    context = browser.new_context()
    context.set_offline(True)
    context.new_page().goto(anchor.as_uri())
    return context

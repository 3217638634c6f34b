"""Replay files opened from disk, with the network off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.reading import next_frame

Opener = Callable[..., Any]


@contextmanager
def opener(browser: Any, folder: Path) -> Iterator[Opener]:
    """Open HTML as a file; fail on requests, console messages and errors."""
    contexts: list[Any] = []
    trouble: list[str] = []

    def judge(route: Any) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            trouble.append(route.request.url)
            route.abort()

    def open_file(html: str, *, width: int = 1440, height: int = 1000, **options: Any) -> Any:
        path = folder / f"replay-{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.set_offline(True)
        context.route("**", judge)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector('[data-testid="player"]')
        next_frame(page)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert trouble == []

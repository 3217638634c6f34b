"""Browser contexts that tests use one after another.

A new context has an empty cache: Chromium fetches and compiles about 10 MB of scripts for its
first page, which takes a core two seconds. So a context is used again, without what the test
before left in its storage.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

_STORAGE = "cookies,indexeddb,local_storage"


class _Kind(NamedTuple):
    """What the scripts of a context set, for all of its pages."""

    tour: bool
    pace: str


class Contexts:
    """The contexts of a browser. A page of one has no other page's storage."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._idle: dict[_Kind, list[Any]] = {}
        self._kinds: dict[Any, _Kind] = {}
        self._origins: dict[Any, set[str]] = {}  # those that a context's pages made requests to

    def open(
        self,
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        tour: bool = False,
        pace: str = "now",
        cold: bool = False,
    ) -> Any:
        """Return a blank page. By default the tour is over and the player follows the decoder.

        Args:
            cold: Whether the cache must be empty, as on a first visit.
        """
        kind = _Kind(tour, pace)
        idle = self._idle.setdefault(kind, [])
        context = idle.pop() if idle and not cold else self._new(kind)
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        if origins := self._origins[context]:
            session = context.new_cdp_session(page)
            for origin in origins:
                session.send(
                    "Storage.clearDataForOrigin", {"origin": origin, "storageTypes": _STORAGE}
                )
            session.detach()
            origins.clear()
        return page

    def close(self, page: Any) -> None:
        """Close all pages of the page's context, and keep the context for another test."""
        context = page.context
        for each in context.pages:
            each.close()
        self._idle[self._kinds[context]].append(context)

    def _new(self, kind: _Kind) -> Any:
        context = self._browser.new_context()
        if not kind.tour:
            context.add_init_script("try { localStorage.setItem('specviz.tour', 'done') } catch {}")
        if kind.pace:
            context.add_init_script(
                f"try {{ localStorage['specviz.pace'] ??= '{kind.pace}' }} catch {{}}"
            )
        origins = self._origins[context] = set()
        context.on("request", lambda request: origins.add(_origin(request.url)))
        self._kinds[context] = kind
        return context


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"

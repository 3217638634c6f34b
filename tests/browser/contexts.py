"""Browser contexts that tests use one after another.

A new context has an empty cache: Chromium fetches and compiles about 10 MB of scripts for its
first page, which takes a core two seconds. So a context is used again, without what the test
before left in its storage. One page of it, the anchor, stays open: with the option
``--process-per-site`` its process draws all other pages, which then need a fifth less time.
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
        self._anchors: dict[Any, Any] = {}

    def open(
        self,
        url: str,
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
            url: The address that the page will open.
            cold: Whether the cache must be empty, as on a first visit.
        """
        kind = _Kind(tour, pace)
        idle = self._idle.setdefault(kind, [])
        context = idle.pop() if idle and not cold else self._new(kind)
        if context not in self._anchors and not cold:
            self._anchors[context] = anchor = context.new_page()
            anchor.goto(f"{_origin(url)}/_stcore/health")
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
        """Close the pages of the page's context, and keep the context for another test."""
        context = page.context
        for each in context.pages:
            if each != self._anchors.get(context):
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

"""The states of tabs, kept on the server for a while so that a reload can restore them.

The page's address contains a key. A tab that opens this address gets the state, but only after the
first tab is gone; until then, another tab with the same address starts empty. A tab of another
person is treated as missing. Answers that a tab requested from serving engines are stopped some
seconds after the tab is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Timer

import streamlit as st

TAB_LINK = "tab"
OPEN_PAGE = "open page"  # key in the session state: the page that the shell has opened
_KEPT_SECONDS = 120.0  # how long the state of a closed tab is kept
# How long to wait, because a reloaded page may connect before its old connection is closed.
_CLOSING_SECONDS = 1.0
_GRACE = 10.0  # seconds within which a tab may come back; a broken connection counts as closing


@dataclass(slots=True)
class _SavedTab:
    tab: str
    shown: object
    person: str
    left_at: float | None = None


@dataclass(slots=True)
class Tabs:
    """The saved states of tabs, by the key in the tab's address. Thread-safe."""

    _saved: dict[str, _SavedTab] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)
    _ends: dict[str, Callable[[], object]] = field(default_factory=dict)
    _timers: dict[str, Timer] = field(default_factory=dict)

    def end_with(self, tab: str, end: Callable[[], object]) -> None:
        """Register a function to call if the tab is gone and is not back some seconds later."""
        with self._changed:
            self._ends[tab] = end

    def keep(self, key: str, tab: str, shown: object, person: str = "") -> None:
        """Save the state of a person's tab under this key."""
        with self._changed:
            self._saved[key] = _SavedTab(tab, shown, person)
            self._forget_old()

    def leave(self, tab: str) -> None:
        """Record that a tab is gone: closed, reloaded or disconnected.

        Its function (see ``end_with``) is called some seconds later, unless the tab comes back.
        """
        with self._changed:
            for saved in self._saved.values():
                if saved.tab == tab:
                    saved.left_at = time.monotonic()
            if tab in self._ends:
                self._cancel(tab)
                timer = self._timers[tab] = Timer(_GRACE, self._end, [tab])
                timer.daemon = True
                timer.start()
            self._changed.notify_all()

    def stay(self, tab: str) -> None:
        """Record that a tab is open or back, and cancel the call that ``leave`` planned."""
        with self._changed:
            self._cancel(tab)
            for saved in self._saved.values():
                if saved.tab == tab:
                    saved.left_at = None

    def take(self, key: str, person: str = "") -> tuple[str, object] | None:
        """Return the id and state of the person's tab with this key.

        The result is None if the person has no such tab, or if the tab is still open.
        """
        with self._changed:
            self._forget_old()
            saved = self._saved.get(key)
            if saved is None or saved.person != person:
                return None
            self._changed.wait_for(lambda: saved.left_at is not None, _CLOSING_SECONDS)
            if saved.left_at is None:
                return None
            saved.left_at = None
            return saved.tab, saved.shown

    def _cancel(self, tab: str) -> None:
        timer = self._timers.pop(tab, None)
        if timer is not None:
            timer.cancel()

    def _end(self, tab: str) -> None:
        with self._changed:
            self._timers.pop(tab, None)
            end = self._ends.pop(tab, None)
        if end is not None:
            end()

    def _forget_old(self) -> None:
        now = time.monotonic()
        for key, saved in list(self._saved.items()):
            if saved.left_at is not None and now - saved.left_at > _KEPT_SECONDS:
                del self._saved[key]


@st.cache_resource(show_spinner=False)
def the_tabs() -> Tabs:
    return Tabs()

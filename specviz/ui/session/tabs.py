"""What a tab shows is kept on the server for a while, so that a reload finds it again.

The address of the page holds a key. Whoever opens it is given what the tab had, but only once that
tab is gone: another tab that opens the same address begins afresh. What a tab has under way at
another server ends some seconds after the tab is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Timer

import streamlit as st

TAB_LINK = "tab"
_KEPT_SECONDS = 120.0  # after a tab is gone
_CLOSING_SECONDS = 1.0  # a reloaded page may come before its old connection is known to be gone
_GRACE = 10.0  # seconds; a broken connection counts as closing too


@dataclass(slots=True)
class _Seat:
    tab: str
    shown: object
    left_at: float | None = None


@dataclass(slots=True)
class Tabs:
    """Safe to call from any thread."""

    _seats: dict[str, _Seat] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)
    _ends: dict[str, Callable[[], object]] = field(default_factory=dict)
    _timers: dict[str, Timer] = field(default_factory=dict)

    def end_with(self, tab: str, end: Callable[[], object]) -> None:
        """Call this some seconds after the tab is gone, unless it is back by then."""
        with self._changed:
            self._ends[tab] = end

    def keep(self, key: str, tab: str, shown: object) -> None:
        with self._changed:
            self._seats[key] = _Seat(tab, shown)
            self._forget_old()

    def leave(self, tab: str) -> None:
        """The tab is closed, reloaded, or its connection is broken."""
        with self._changed:
            for seat in self._seats.values():
                if seat.tab == tab:
                    seat.left_at = time.monotonic()
            if tab in self._ends:
                self._cancel(tab)
                timer = self._timers[tab] = Timer(_GRACE, self._end, [tab])
                timer.daemon = True
                timer.start()
            self._changed.notify_all()

    def stay(self, tab: str) -> None:
        """It is there after all, as after a broken connection."""
        with self._changed:
            self._cancel(tab)
            for seat in self._seats.values():
                if seat.tab == tab:
                    seat.left_at = None

    def take(self, key: str) -> tuple[str, object] | None:
        """The tab's id and what it showed; None if there is no such tab, or it is still open."""
        with self._changed:
            self._forget_old()
            seat = self._seats.get(key)
            if seat is None:
                return None
            self._changed.wait_for(lambda: seat.left_at is not None, _CLOSING_SECONDS)
            if seat.left_at is None:
                return None
            seat.left_at = None
            return seat.tab, seat.shown

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
        for key, seat in list(self._seats.items()):
            if seat.left_at is not None and now - seat.left_at > _KEPT_SECONDS:
                del self._seats[key]


@st.cache_resource(show_spinner=False)
def the_tabs() -> Tabs:
    return Tabs()

"""Helpers for AppTest: open a page, click, and read what it sent to the player."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parent.parent.parent


def opened(file: str = "app.py", **link: str) -> AppTest:
    app = AppTest.from_file(ROOT / file, default_timeout=120)
    for name, value in link.items():
        app.query_params[name] = value
    return sound(app.run())


def page_of(name: str, **link: str | list[str]) -> AppTest:
    """Open a page directly: Watch is not opened, so no pair is loaded."""
    app = AppTest.from_file(ROOT / "app.py", default_timeout=120)
    app.switch_page(f"pages/{name}.py")
    for key, value in link.items():
        app.query_params[key] = value
    return sound(app.run())


def sound(app: AppTest) -> AppTest:
    assert [each.message for each in app.exception] == []
    return app


def sent(app: AppTest) -> dict[str, Any]:
    """Return the player's data."""
    return json.loads(app.get("bidi_component")[0].proto.json)


def until(app: AppTest, holds: Callable[[], object], seconds: float = 180) -> None:
    """Rerun the page, as its timers would, until the condition holds.

    A condition on an element that is not drawn yet raises KeyError and does not hold.
    """

    def holds_now() -> object:
        try:
            return holds()
        except KeyError:
            return False

    deadline = time.monotonic() + seconds
    while not holds_now():
        assert time.monotonic() < deadline
        time.sleep(0.2)
        sound(app.run())


def until_over(app: AppTest) -> dict[str, Any]:
    data = until_state(app, "done")
    assert not data["run"]["waiting"]
    return data


def until_state(app: AppTest, state: str, seconds: float = 120) -> dict[str, Any]:
    """Rerun the page as its timers would, until the run has a state."""
    deadline = time.monotonic() + seconds
    while (data := sent(sound(app.run())))["run"]["state"] != state:
        assert time.monotonic() < deadline, data["run"]
        _wait_for_the_run(app, 0.2)
    return data


def _wait_for_the_run(app: AppTest, seconds: float) -> None:
    """Wait until the current run ends, at most this many seconds."""
    deadline = time.monotonic() + seconds
    time.sleep(0.01)
    while time.monotonic() < deadline:
        run = app.session_state["history"].current
        if run is not None and run.finished:
            return
        time.sleep(0.01)

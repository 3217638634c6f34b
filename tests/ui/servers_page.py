"""The Servers page and a replayed engine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.servers.replaying import Served, replayed
from tests.ui.paging import ROOT, sound


@pytest.fixture
def vllm() -> Iterator[Served]:
    with replayed("vllm", "short") as engine:
        yield engine


def page_of(**link: str) -> AppTest:
    """Open the page by a link and connect to all of its addresses."""
    app = linked(**link)
    for key in [each.key for each in app.button if each.key and each.key.endswith("_look_at")]:
        sound(app.button(key=key).click().run())
    return app


def linked(**link: str) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    app.switch_page("pages/servers.py")
    for name, value in link.items():
        app.query_params[name] = value
    return sound(app.run())


def texts(app: AppTest) -> str:
    parts = (*app.title, *app.caption, *app.markdown, *app.info, *app.error)
    return " ".join(each.value for each in parts).replace("\\", "").replace("\u2060", "")


def boards(app: AppTest) -> list[dict[str, Any]]:
    """Return the data of the components other than the recorded example."""
    found = [json.loads(each.proto.json) for each in app.get("bidi_component")]
    return [each for each in found if each.get("run", {}).get("id") != "recorded answer"]


def ask(app: AppTest) -> dict[str, Any]:
    """Press Ask; return the player's data when the answer is finished."""
    sound(app.button(key="server_ask").click().run())
    return until(app, "done", "failed", "stopped")


def until(app: AppTest, *states: str) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    while not (found := [each for each in boards(app) if "run" in each]) or (
        found[0]["run"]["state"] not in states
    ):
        assert time.monotonic() < deadline, texts(app)
        time.sleep(0.1)
        sound(app.run())
    return found[0]

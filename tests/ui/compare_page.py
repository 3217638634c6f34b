"""Helpers that open the Compare page and read its lanes."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from specviz.comparison.plan import Lane
from tests.ui.paging import ROOT, sound


def compare_page(*lanes: str, **link: str) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=120)
    app.switch_page("pages/compare.py")
    if lanes:
        app.query_params["lane"] = list(lanes)
    for key, value in link.items():
        app.query_params[key] = value
    return sound(app.run())


def lanes_of(app: AppTest) -> list[Lane]:
    return [card.lane for card in app.session_state["compare cards"].cards]


def linked(app: AppTest) -> list[str]:
    return list(app.query_params["lane"])


def unescaped(text: str) -> str:
    return text.replace("\\", "")

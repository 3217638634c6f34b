"""Settings that one page puts into another page's controls cause no Streamlit warning."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from streamlit.elements.lib import policies
from streamlit.testing.v1 import AppTest

from specviz.record.trace import RunConfig
from specviz.store import Library
from specviz.store.saving import save_run
from tests.traces import make_trace
from tests.ui.paging import opened, sound

pytestmark = pytest.mark.usefixtures("loads_nothing")

OF_A_PLAN = {"compare_length": 32, "compare_seed": 4, "compare_ignore_eos": False,
             "compare_prompt": "x", "compare_repeats": 2}  # fmt: skip


class LogCollector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect Streamlit's widget warnings, including those it logs once per process."""
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    handler = LogCollector()
    policies._LOGGER.addHandler(handler)
    yield handler.words
    policies._LOGGER.removeHandler(handler)


def at_page(app: AppTest, name: str) -> AppTest:
    app.switch_page(f"pages/{name}.py")
    return sound(app.run())


def test_settings_move_between_pages_without_warnings(warnings: list[str]) -> None:
    kept = save_run(Library(), make_trace(config=RunConfig(gamma=3, max_new_tokens=40)))
    app = opened(run=kept)
    sound(app.button(key="use_opened").click().run())  # Runs to Watch
    assert app.slider(key="length").value == 40
    at_page(app, "compare")
    app.slider(key="compare_length").set_value(24)
    sound(app.slider(key="compare_repeats").set_value(3).run())
    app.session_state["compare_lanes"] = ["gamma=3", "gamma=4"]  # as Runs does
    at_page(app, "runs")
    at_page(app, "compare")
    assert app.slider(key="compare_length").value == 24
    for name, value in OF_A_PLAN.items():  # as a saved comparison does
        app.session_state[name] = value
    sound(app.run())
    assert app.slider(key="compare_repeats").value == 2
    assert warnings == []

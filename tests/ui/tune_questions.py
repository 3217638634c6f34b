"""Ask a question on the Tune page, and wait for its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.tune.question import Question
from specviz.ui.session.background_jobs import the_job_queue
from tests.ui.paging import sound
from tests.ui.tune_jobs import ScoringMaker, page_text, put_maker

TABS = ("Every γ", "Which draft?", "Along the text", "A run", "Your engine", "Ledger")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[ScoringMaker], ScoringMaker]:
    def put(maker: ScoringMaker) -> ScoringMaker:
        put_maker(monkeypatch, maker)
        return maker

    return put


def ask(app: AppTest) -> Any:
    """Press the button and wait until the job ends."""
    sound(app.button(key="tune_ask").click().run())
    work: Any = the_job_queue().newest("tune")
    assert work is not None, page_text(app)
    assert work.wait(60)
    sound(app.run())
    return work


def asked(app: AppTest) -> Question:
    return ask(app).question


def at(app: AppTest, tab: str) -> AppTest:
    app.session_state["tune_tab"] = tab
    return sound(app.run())

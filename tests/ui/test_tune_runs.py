"""The tabs of Tune that show kept runs, without a browser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.errors import SpecvizError
from specviz.record.trace import RunConfig, Trace
from specviz.store import Library, Query
from specviz.store.saving import save_run
from tests.traces import full_trace, make_trace
from tests.ui.paging import sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import page_text
from tests.ui.tune_page import odds_text, tune_page

pytestmark = pytest.mark.usefixtures("own_home")


def keep(trace: Trace, **fields: Any) -> str:
    return save_run(Library(), trace, **fields)


def test_analyses_a_chosen_run() -> None:
    keep(full_trace(), name="first")
    keep(replace(full_trace(), config=replace(full_trace().config, gamma=7)), name="*second*")
    app = tune_page(tune_tab="A run")
    box = app.selectbox(key="tune_run")
    assert [each.split(" · ")[0] for each in box.options] == ["*second*", "first"]
    assert "γ 7" in box.options[0]
    sound(box.select_index(1).run())
    assert "tune_waterfall" in charts(app)
    shown = page_text(app)
    assert "**Textbook**" in shown
    assert "**Observed**" in shown
    assert "Acceptance along the text" in shown
    names = list(app.table[0].value["figure"])
    assert "mean\\_acceptance\\_length" in names
    sound(app.segmented_control(key="tune_figures_of").set_value("TensorRT-LLM").run())
    assert list(app.table[0].value["figure"]) == ["avg\\_decoded\\_tokens\\_per\\_iter"]


def test_falls_back_to_another_engine_without_figures() -> None:
    """SGLang has no figures for a drafter that does not fill its rounds."""
    lookup = replace(full_trace().config, drafter="prompt-lookup")
    keep(replace(full_trace(), config=lookup), name="copied")
    keep(full_trace(), name="drafted")
    app = tune_page(tune_tab="A run")
    sound(app.segmented_control(key="tune_figures_of").set_value("SGLang").run())
    sound(app.selectbox(key="tune_run").select_index(1).run())
    assert app.segmented_control(key="tune_figures_of").value != "SGLang"
    assert len(app.table[0].value) > 3
    assert "rounds vary in length" in page_text(app)
    assert "The text is not scored, because the run used no draft model" in page_text(app)


def test_does_not_offer_a_lossy_run() -> None:
    lossy = replace(full_trace().config, rule="over-accept", epsilon=0.1)
    keep(replace(full_trace(), config=lossy))
    assert "No kept run has a measured speedup" in page_text(tune_page(tune_tab="A run"))
    assert "No kept run has both" in page_text(tune_page(tune_tab="Ledger"))


def test_does_not_offer_an_untimed_run() -> None:
    keep(make_trace(["ar", "aa"], config=RunConfig(gamma=2)))
    assert "No kept run has a measured speedup" in page_text(tune_page(tune_tab="A run"))


def test_run_without_odds_shows_its_rounds() -> None:
    trace = replace(full_trace(), odds=())
    keep(trace)
    app = tune_page(tune_tab="A run")
    assert "The text was not scored when this run was kept" in page_text(app)
    sent = odds_text(app)
    assert set(sent["odds"]) == {None}
    assert sent["ends"] == {"2": "recovered", "6": "bonus"}  # aar, aaa, and a round that is cut


def test_run_with_odds_shows_them() -> None:
    trace = full_trace()
    odds = tuple(0.25 for _ in trace.token_ids)
    keep(replace(trace, odds=odds))
    app = tune_page(tune_tab="A run")
    assert "not scored" not in page_text(app)
    assert set(odds_text(app)["odds"]) == {0.25}


def test_a_deleted_run_is_no_longer_offered() -> None:
    run_id = keep(full_trace())
    app = tune_page(tune_tab="A run")
    Library().delete([run_id])
    sound(app.run())
    assert "No kept run has a measured speedup" in page_text(app)


@pytest.mark.parametrize(("count", "words"), [(1, "One run"), (3, "of 3 runs"), (6, "of 6 runs")])
def test_ledger_of_kept_runs(count: int, words: str) -> None:
    trace = replace(full_trace(), odds=tuple(0.8 for _ in full_trace().token_ids))
    for number in range(count):
        keep(trace, name=f"<b>{number}</b>")
    rows = Library().find(Query())
    assert all(each.summary.speedup_expected for each in rows)
    app = tune_page(tune_tab="Ledger")
    assert words in page_text(app)
    runs = charts(app)["tune_ledger"]["data"][1]
    assert len(runs["x"]) == count
    assert "<b>" not in str(runs["text"])


def test_shows_an_error_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(full_trace())

    def broken(*_: object) -> None:
        raise SpecvizError("The library is *broken*.", remedy="Mend it.")

    monkeypatch.setattr(Library, "open", broken)
    assert "The library is *broken*." in page_text(tune_page(tune_tab="A run"))

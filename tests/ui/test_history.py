"""A run that ends while the page is drawn: partial data is never shown or cached as final."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import streamlit as st

from specviz.figures.metrics import metrics
from specviz.player.payload import RunChoice
from specviz.record.pairs import PairSpec
from specviz.record.trace import Trace
from specviz.store import trace_to_json
from specviz.ui.session.history import History
from specviz.ui.watch.run_player import _player_data
from specviz.ui.watch.sharing import show_downloads
from specviz.worker.messages import RunTimed
from specviz.worker.parent.client import PairStatus, Run
from tests.traces import full_trace


class EndsWhileRead(Run):
    """A run whose last message arrives just after it was read."""

    def so_far(self) -> Trace | None:
        seen = super().so_far()
        if not self.finished:
            self.conclude(replace(full_trace(), rounds=()))
            self.end("done")
        return seen


@pytest.fixture
def history() -> History:
    trace = full_trace()
    run = EndsWhileRead(
        session="a",
        spec=PairSpec(),
        config=trace.config,
        on_stop=lambda run: None,
    )
    run.begin(replace(trace, rounds=(), baseline=None, text=""), None)
    for entry in trace.rounds:
        run.add(entry)
    history = History()
    history.add(run)
    return history


def test_cached_figures_are_of_the_whole_run(history: History) -> None:
    first, second = history.shown(), history.shown()
    assert (first.growing, first.figures.speedup_observed) == (True, None)
    assert (second.growing, second.figures) == (False, metrics(full_trace()))


def test_the_player_is_not_done_before_it_has_all_rounds(history: History) -> None:
    config = full_trace().config
    chosen = RunChoice(config=config, prompt="", kind=None)
    first, second = (_player_data(PairStatus(), history, chosen, "never") for _ in range(2))
    assert (first["run"]["state"], first["lanes"]) == ("running", None)
    assert second["run"]["state"] == "done"
    assert second["lanes"] is not None


def test_downloads_contain_the_whole_run(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[tuple[str, bool]] = []

    def button(label: str, data: str, *, disabled: bool, **others: Any) -> None:
        if "trace" in label:
            offered.append((data, disabled))

    monkeypatch.setattr(st, "download_button", button)
    show_downloads(history)
    show_downloads(history)
    assert offered == [("", True), (trace_to_json(full_trace()), False)]


def test_figures_are_updated_by_new_slices() -> None:
    """All rounds have arrived; each message adds a slice."""
    trace = full_trace()
    run = Run(session="a", spec=PairSpec(), config=trace.config, on_stop=lambda run: None)
    run.begin(replace(trace, rounds=(), baseline=None), None)
    for entry in trace.rounds:
        run.add(entry)
    history = History()
    history.add(run)
    assert history.shown().figures.speedup_observed is None
    assert trace.baseline is not None
    (first,) = trace.baseline.slices
    slower = replace(first, target=tuple(2 * each for each in first.target))
    for slices in ((first,), (first, slower), (first, slower, slower)):
        baseline = replace(trace.baseline, slices=slices)
        run.take_timing(
            RunTimed(
                run_id=run.id, baseline=baseline, text=trace.text, finish=trace.finish, over=False
            )
        )
        timed = replace(trace, baseline=baseline)
        assert history.shown().figures == metrics(timed, intervals=False)

"""A series: ordinary runs one after the other, driven by ticks that never wait."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import PromptError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.session import worker as device
from specviz.ui.session.worker import Tab
from specviz.worker.parent.client import Worker
from specviz.worker.series import Planned, Series
from tests.test_houses import MODELS, loaded_by
from tests.worker.waiting import finish, wait_for_rounds

pytestmark = pytest.mark.timeout(180)

PROMPT = "Tom had a big red ball and"
CONFIG = RunConfig(gamma=3, max_new_tokens=16, ignore_eos=True)
LONG = replace(CONFIG, max_new_tokens=1000)


def plan(spec: PairSpec, *seeds: int, prompt: str = PROMPT) -> list[Planned]:
    return [
        Planned(label=f"seed {seed}", spec=spec, prompt=prompt, config=replace(CONFIG, seed=seed))
        for seed in seeds
    ]


def play(series: Series, seconds: float = 60.0) -> Series:
    began = time.monotonic()
    while series.state == "running":
        assert time.monotonic() - began < seconds
        series.advance()
        time.sleep(0.002)
    return series


def test_every_run_is_made_in_order_and_kept(worker: Worker, spec: PairSpec) -> None:
    series = Series(worker, "a", plan(spec, 3, 1, 2))
    assert (series.state, series.progress, series.current) == ("running", (0, 3), None)
    play(series)
    assert (series.state, series.progress, series.error) == ("done", (3, 3), None)
    assert [trace.config.seed for trace in series.traces] == [3, 1, 2]
    assert all(len(trace.token_ids) == 16 for trace in series.traces)
    assert all(trace.baseline is None for trace in series.traces)
    series.advance()
    series.stop()
    assert (series.state, series.current) == ("done", None)


def test_it_never_waits_and_has_one_run_at_a_time(worker: Worker, spec: PairSpec) -> None:
    long = [replace(each, config=LONG) for each in plan(spec, 1, 2)]
    series = Series(worker, "a", long)
    series.advance()
    first = series.current
    assert first is not None
    wait_for_rounds(first, 1)
    spent = []
    for _ in range(5):
        began = time.monotonic()
        series.advance()
        spent.append(time.monotonic() - began)
    assert min(spent) < 0.5  # the least: a machine has other work
    assert series.current is first
    series.stop()
    assert (series.state, series.traces, series.current) == ("stopped", (), None)
    assert finish(first).state == "stopped"
    series.advance()
    assert series.current is None


def test_the_first_failure_ends_it_and_says_why(worker: Worker, spec: PairSpec) -> None:
    planned = [*plan(spec, 1), *plan(spec, 2, prompt=""), *plan(spec, 3)]
    series = play(Series(worker, "a", planned))
    assert (series.state, series.progress) == ("failed", (1, 3))
    assert isinstance(series.error, PromptError)
    assert [trace.config.seed for trace in series.traces] == [1]


def test_it_leaves_the_runs_of_the_tab_alone(worker: Worker, spec: PairSpec) -> None:
    mine = worker.submit("a", spec, PROMPT, CONFIG, baseline=False)
    series = play(Series(worker, "b", plan(spec, 1)))
    assert finish(mine).state == series.state == "done"


def test_a_run_stopped_from_without_stops_it(worker: Worker, spec: PairSpec) -> None:
    series = Series(worker, "a", [replace(plan(spec, 1)[0], config=LONG)])
    series.advance()
    assert series.current is not None
    wait_for_rounds(series.current, 1)
    worker.release("a", grace=0.0)
    assert play(series).state == "stopped"
    assert series.traces == ()


def test_nothing_planned_is_done() -> None:
    assert Series(Worker(), "a", []).state == "done"


class Onlooker(Worker):
    """It notes what is kept and released."""

    released: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def release(self, session: str, grace: float = 10.0) -> None:
        self.released += (session,)

    def keep(self, session: str) -> None:
        self.kept += (session,)


@pytest.fixture
def onlooker(monkeypatch: pytest.MonkeyPatch) -> Onlooker:
    made = Onlooker()
    monkeypatch.setattr(device, "the_worker", lambda: made)
    return made


def test_the_tab_keeps_and_releases_its_series(
    onlooker: Onlooker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = Tab("t", onlooker)
    monkeypatch.setattr(device, "_the_tab", lambda _: tab)
    assert device.this_tab() is tab
    device._release(tab)
    assert onlooker.kept == onlooker.released == ("t", "t:series")


def page_of_a_tab() -> None:
    from specviz.ui.session import worker as device

    device._the_tab.clear()  # as Streamlit does when a session's connection breaks off
    device.this_tab()


def test_a_tab_whose_connection_broke_off_is_the_same_when_it_comes_back(
    onlooker: Onlooker,
) -> None:
    assert not AppTest.from_function(page_of_a_tab).run().run().exception
    assert len(onlooker.kept) == 4
    assert set(onlooker.released) == set(onlooker.kept)
    assert len(set(onlooker.kept)) == 2


def test_it_loads_no_models() -> None:
    assert not loaded_by("specviz.worker.series") & MODELS

"""Bodies on Watch and Compare: sliders, their captions, and the default body of Watch."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.engine import load_pair
from specviz.errors import DeviceError
from specviz.figures.body_words import EARLY_RUN, RUN_WITHOUT_BODY_HINT, body_sentences
from specviz.figures.metrics import metrics
from specviz.record.bodies import NO_BODY
from specviz.record.body_costs import BodyRoom
from specviz.record.numbers import MILLISECONDS
from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, PairSpec, chat_file
from specviz.record.trace import RunConfig
from specviz.ui.watch.first_body import FIRST_BODY
from specviz.ui.widgets.body_boxes import BODY_LABELS
from specviz.ui.widgets.pair_boxes import TARGET_BODY
from specviz.worker.parent import link
from specviz.worker.parent.client import Run
from specviz.worker.parent.pair_status import PairStatus
from tests.machines import CRAMPED, LAPTOP, SLOW, STONE_AGE, answer_with
from tests.step_costs import place_step_costs
from tests.ui.paging import opened, sent, sound, until, until_over

GROWN = PairSpec(target_body="10M")


def words(app: AppTest) -> str:
    elements = [*app.caption, *app.warning, *app.error, *app.info]
    return " ".join(str(each.value) for each in elements)


def label(app: AppTest) -> str:
    return app.button(key="run").label


# The sliders


@pytest.mark.usefixtures("loads_nothing")
def test_a_slider_selects_a_pair_that_a_click_loads() -> None:
    app = opened()
    assert label(app) == "Run"
    sound(app.select_slider(key="target_body").set_value("10M").run())
    assert label(app) == "Load the simulated size and run"
    assert app.query_params["target_body"] == "10M"
    assert "draft_body" not in app.query_params
    assert "MB read per step" in words(app)
    sound(app.select_slider(key="draft_body").set_value("90M").run())
    assert app.query_params["draft_body"] == "90M"
    sound(app.button(key="load_pair").click().run())
    assert app.session_state["pair asked for"] == replace(GROWN, draft_body="90M")


def test_a_link_chooses_bodies_without_loading() -> None:
    app = opened(target_body="1200m", draft_body="what?")
    assert app.select_slider(key="target_body").value == "1.2B"
    assert app.select_slider(key="draft_body").value == NO_BODY
    assert label(app) == "Load the simulated size and run"
    assert "pair asked for" not in app.session_state


def test_one_click_removes_the_body() -> None:
    app = opened(target_body="90M", draft_body="10M")
    sound(app.button(key="without_body").click().run())
    assert label(app) == "Run"
    assert app.query_params["target_body"] == NO_BODY
    assert "draft_body" not in app.query_params
    assert "without_body" not in [each.key for each in app.button]


def test_bodies_that_do_not_fit_are_listed_but_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, CRAMPED)
    app = opened()
    slider = app.select_slider(key="target_body")
    assert "cost of 88 M" in slider.options
    assert "cost of 1.1 B" not in slider.options
    assert "Not enough memory for " in slider.help
    assert "needs 2.13 GB to run, 2 GB is free." in slider.help
    linked = opened(target_body="llama-3.2-1b")
    assert "It does not fit: needs 6.7 GB to run, 2 GB is free." in words(linked)


def test_another_pair_starts_without_bodies() -> None:
    app = opened(target_body="90M")
    sound(app.segmented_control(key="pair").set_value("Local").run())
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    assert app.select_slider(key="target_body").value == NO_BODY
    assert label(app) == "Run"


def test_compare_takes_over_bodies_and_a_lane_can_have_its_own() -> None:
    app = opened(target_body="90M")
    app.switch_page("pages/compare.py")
    app.query_params.clear()
    sound(app.run())
    grown = PairSpec(target_body="90M")
    assert [each.spec for each in app.session_state["compare cards"].lanes] == [grown, grown]
    boxes = [each for each in app.selectbox if each.label == BODY_LABELS[TARGET_BODY]]
    sound(boxes[1].set_value(NO_BODY).run())
    assert [each.spec for each in app.session_state["compare cards"].lanes] == [grown, PairSpec()]
    first, second = app.query_params["lane"]
    assert "target_body=90M" in first
    assert "body" not in second


# A run


@pytest.fixture(scope="module")
def costs_of_the_grown(data_folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(data_folder))
        place_step_costs(load_pair(replace(GROWN, name="tinystories", threads=1)), "model")


@pytest.mark.usefixtures("costs_of_the_grown")
def test_a_run_shows_its_body_and_the_speedup_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = opened(target_body="10M", length="12", temperature="0")
    sound(app.button(key="run").click().run())
    until_over(app)
    run: Run = app.session_state["history"].current
    assert run.spec == GROWN
    assert run.trace is not None
    until(app, lambda: app.session_state["history"].own.get(run.id) is not None)
    figures, own = metrics(run.trace), app.session_state["history"].own[run.id]
    shown = sent(sound(app.run()))
    sentences = body_sentences(run.trace, figures, own)
    assert shown["summary"]["bodies"] == " ".join(sentences)
    assert own.low is not None
    assert figures.steps.target is not None
    assert f"{MILLISECONDS.shown(1000 * figures.steps.target)} measured." in words(app)
    card = next(each for each in shown["summary"]["figures"] if each["id"] == "speedup-observed")
    assert "own size " in card["note"]
    assert "target simulates the cost of an 11 M model" in shown["run"]["label"]
    assert label(app) == "Run"
    # The run without a body is saved, so it is not repeated.
    sound(app.button(key="run").click().run())
    until_over(app)
    again = app.session_state["history"].current
    assert app.session_state["history"].own[again.id] == own


def test_run_stops_the_run_without_a_body() -> None:
    app, stopped = opened(length="16"), list[Run]()
    extra = Run(session="a", spec=PairSpec(), config=RunConfig(), on_stop=stopped.append)
    history = app.session_state["history"]
    history.run_without_body, history.own["a run"] = ("a run", extra), None
    sound(app.button(key="run").click().run())
    assert stopped == [extra]
    assert (history.run_without_body, history.own) == (None, {})


# The default body of Watch


@pytest.fixture
def by_the_machine(monkeypatch: pytest.MonkeyPatch, loads_nothing: None) -> None:
    monkeypatch.setenv(FIRST_BODY, "auto")


@pytest.mark.usefixtures("by_the_machine")
@pytest.mark.parametrize(
    ("machine", "body"),
    [(LAPTOP, "smollm2-135m"), (SLOW, "30M"), (STONE_AGE, NO_BODY)],
    ids=["fast", "slow", "too slow for any"],
)
def test_the_default_body_depends_on_the_machine(
    monkeypatch: pytest.MonkeyPatch, machine: BodyRoom, body: str
) -> None:
    answer_with(monkeypatch, machine)
    app = opened()
    assert label(app) == "Run"
    offered = app.session_state["first body"].offered
    key = "offered_target_body" if offered else "target_body"
    assert app.select_slider(key=key).value == body
    assert (offered.target_body if offered else NO_BODY) == body
    assert app.query_params.get("target_body") == (None if offered else NO_BODY)


@pytest.mark.usefixtures("by_the_machine")
@pytest.mark.skipif(chat_file() is None, reason="the chat model is not installed")
@pytest.mark.parametrize("model", [CHAT_PAIR, CHAT_HEAD])
def test_the_chat_model_keeps_its_size(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    answer_with(monkeypatch, LAPTOP)
    app = opened(embedded=model)
    assert app.session_state["first body"].offered is None
    assert app.query_params["target_body"] == NO_BODY


@pytest.mark.usefixtures("by_the_machine")
def test_moving_the_offered_size_chooses_another(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, LAPTOP)
    app = opened()
    sound(app.select_slider(key="offered_target_body").set_value("10M").run())
    assert app.select_slider(key="target_body").value == app.query_params["target_body"] == "10M"
    assert app.session_state["first body"].offered is None


@pytest.mark.usefixtures("by_the_machine")
def test_a_link_without_a_body_gets_no_default() -> None:
    app = opened(target_body=NO_BODY)
    assert app.select_slider(key="target_body").value == NO_BODY
    assert app.session_state["first body"].offered is None


@pytest.mark.usefixtures("by_the_machine")
def test_there_is_no_body_until_the_machine_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer_with(monkeypatch, None)
    app = opened()
    assert "target_body" not in app.query_params
    assert RUN_WITHOUT_BODY_HINT in sent(app)["run"]["detail"]
    assert "target_body=none" in app.code[0].value
    sound(app.button(key="run").click().run())
    first_body, run = app.session_state["first body"], app.session_state["history"].runs[-1]
    assert not first_body.was_early(run)  # no body was being loaded
    asked[0].end(LAPTOP, None)
    sound(app.run())
    assert first_body.offered.target_body == "smollm2-135m"


@pytest.mark.usefixtures("by_the_machine")
def test_a_refused_run_does_not_use_the_default_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FIRST_BODY, "10M")
    ready = PairStatus(state="ready", spec=GROWN)
    monkeypatch.setattr("specviz.worker.parent.client.Worker.status", lambda _: ready)
    app = opened(live="false")
    app.text_area(key="prompt").set_value(" ")
    sound(app.button(key="run").click().run())
    assert app.error
    assert app.select_slider(key="offered_target_body").value == "10M"
    assert app.session_state["first body"].ready == GROWN


@pytest.mark.usefixtures("costs_of_the_grown")
def test_a_run_started_before_the_body_is_ready_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker waits, so that the click comes in time."""
    monkeypatch.setenv(FIRST_BODY, "10M")
    start, started = link._start, list[int]()

    def start_paused(descriptor: int) -> Any:
        process = start(descriptor)
        os.kill(process.pid, signal.SIGSTOP)
        started.append(process.pid)
        return process

    monkeypatch.setattr(link, "_start", start_paused)
    app = opened(length="12")
    assert app.session_state["first body"].loading
    assert RUN_WITHOUT_BODY_HINT in sent(app)["run"]["detail"]
    sound(app.button(key="run").click().run())
    os.kill(started[0], signal.SIGCONT)
    until_over(app)
    run: Run = app.session_state["history"].current
    assert run.spec == PairSpec()
    assert sent(app)["run"]["detail"] == EARLY_RUN
    until(app, lambda: not app.session_state["first body"].loading)
    assert app.select_slider(key="offered_target_body").value == "10M"
    sound(app.button(key="run").click().run())
    until_over(app)
    assert app.session_state["history"].current.spec == GROWN
    assert app.select_slider(key="target_body").value == app.query_params["target_body"] == "10M"
    assert sent(app)["run"]["detail"] != EARLY_RUN


@pytest.mark.usefixtures("by_the_machine")
def test_a_default_body_that_fails_is_dropped_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = DeviceError("A target of 90 M does not fit.", remedy="Choose a smaller size.")
    there = [PairStatus(preparing=True)]
    monkeypatch.setattr("specviz.worker.parent.client.Worker.status", lambda _: there[-1])
    monkeypatch.setenv(FIRST_BODY, "90M")
    app = opened()
    assert app.session_state["first body"].loading
    there.append(PairStatus(state="failed", spec=PairSpec(target_body="90M"), error=problem))
    sound(app.run())
    assert app.query_params["target_body"] == NO_BODY
    assert "does not fit" in app.error[0].value
    assert label(app) == "Run"


@pytest.mark.usefixtures("by_the_machine")
def test_another_choice_cancels_the_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[PairSpec] = []
    growing = PairStatus(state="loading", spec=PairSpec(target_body="90M"), preparing=True)
    worker = "specviz.worker.parent.client.Worker"

    def cancel(_: object, spec: PairSpec) -> None:
        cancelled.append(spec)

    monkeypatch.setattr(f"{worker}.status", lambda _: growing)
    monkeypatch.setattr(f"{worker}.cancel_preparing", cancel)
    monkeypatch.setenv(FIRST_BODY, "90M")
    app = opened()
    assert app.session_state["first body"].offered == growing.spec
    sound(app.button(key="without_body").click().run())
    assert app.session_state["first body"].offered is None
    assert cancelled == [growing.spec]
    assert label(app) == "Run"

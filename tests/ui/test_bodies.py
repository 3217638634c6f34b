"""Bodies on Watch and Compare: sliders, what they say, and the body that Watch begins with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.engine import load_pair
from specviz.errors import DeviceError
from specviz.figures.body_words import EARLY_RUN, UNTIL_GROWN, body_sentences
from specviz.figures.metrics import metrics
from specviz.record.bodies import NO_BODY
from specviz.record.body_costs import BodyRoom
from specviz.record.pairs import PairSpec
from specviz.ui.watch.first_body import FIRST_BODY
from specviz.worker.parent.client import Run
from specviz.worker.parent.handles import PairStatus
from tests.machines import CRAMPED, LAPTOP, SLOW, STONE_AGE, answer_with
from tests.step_costs import place_step_costs
from tests.ui.paging import opened, sent, sound, until_over

GROWN = PairSpec(target_body="10M")


def words(app: AppTest) -> str:
    said = [*app.caption, *app.warning, *app.error, *app.info]
    return " ".join(str(each.value) for each in said)


def label(app: AppTest) -> str:
    return app.button(key="run").label


def until(app: AppTest, holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
        sound(app.run())


# The sliders


def test_a_slider_makes_another_pair_that_is_loaded_by_a_click() -> None:
    app = opened()
    assert label(app) == "Run"
    sound(app.select_slider(key="target_body").set_value("10M").run())
    assert label(app) == "Load the grown pair and run"
    assert app.query_params["target_body"] == "10M"
    assert "draft_body" not in app.query_params
    assert "MB read in a step" in words(app)
    sound(app.select_slider(key="draft_body").set_value("90M").run())
    assert app.query_params["draft_body"] == "90M"
    sound(app.button(key="load_pair").click().run())
    assert app.session_state["pair asked for"] == replace(GROWN, draft_body="90M")


def test_a_link_chooses_bodies_and_loads_none() -> None:
    app = opened(target_body="1200m", draft_body="what?")
    assert app.select_slider(key="target_body").value == "1.2B"
    assert app.select_slider(key="draft_body").value == NO_BODY
    assert label(app) == "Load the grown pair and run"
    assert "pair asked for" not in app.session_state


def test_without_a_body_is_one_click_away() -> None:
    app = opened(target_body="90M", draft_body="10M")
    sound(app.button(key="without_body").click().run())
    assert label(app) == "Run"
    assert app.query_params["target_body"] == NO_BODY
    assert "draft_body" not in app.query_params
    assert "without_body" not in [each.key for each in app.button]


def test_what_does_not_fit_is_not_offered_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, CRAMPED)
    app = opened()
    slider = app.select_slider(key="target_body")
    assert "90M" in slider.options
    assert "Llama-3.2-1B" not in slider.options
    assert "Not offered, for want of memory: " in slider.help
    assert "needs 2.13 GB to run, 2 GB are free." in slider.help
    linked = opened(target_body="llama-3.2-1b")
    assert "It does not fit: needs 6.7 GB to run, 2 GB are free." in words(linked)


def test_another_pair_is_as_it_is() -> None:
    app = opened(target_body="90M")
    sound(app.segmented_control(key="pair").set_value("Local").run())
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    assert app.select_slider(key="target_body").value == NO_BODY
    assert label(app) == "Run"


def test_bodies_go_along_to_compare_and_a_lane_has_its_own() -> None:
    app = opened(target_body="90M")
    app.switch_page("pages/compare.py")
    app.query_params.clear()
    sound(app.run())
    grown = PairSpec(target_body="90M")
    assert [each.spec for each in app.session_state["compare cards"].lanes] == [grown, grown]
    boxes = [each for each in app.selectbox if each.label == "Body of the target"]
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
def test_a_run_says_what_its_body_is_and_what_the_pair_does_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = opened(target_body="10M", length="24", temperature="0")
    sound(app.button(key="run").click().run())
    until_over(app)
    run: Run = app.session_state["history"].current
    assert run.spec == GROWN
    assert run.trace is not None
    until(app, lambda: app.session_state["history"].own.get(run.id) is not None)
    figures, own = metrics(run.trace), app.session_state["history"].own[run.id]
    shown = sent(sound(app.run()))
    told = body_sentences(run.trace, figures, own)
    assert shown["summary"]["bodies"] == " ".join(told)
    assert "Without a body: " in " ".join(told)
    assert own.low is not None
    card = next(each for each in shown["summary"]["figures"] if each["id"] == "speedup-observed")
    assert "without a body " in card["note"]
    assert "target of " in shown["run"]["label"]
    assert label(app) == "Run"
    # The run beside it is kept, so it is not made again.
    sound(app.button(key="run").click().run())
    until_over(app)
    again = app.session_state["history"].current
    assert app.session_state["history"].own[again.id] == own


# The body that Watch begins with


@pytest.fixture
def by_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FIRST_BODY, "auto")
    monkeypatch.setattr("specviz.worker.parent.client.Worker.prepare", lambda *_, **__: None)


@pytest.mark.usefixtures("by_the_machine")
@pytest.mark.parametrize(
    ("machine", "body"),
    [(LAPTOP, "smollm2-135m"), (SLOW, "30M"), (STONE_AGE, NO_BODY)],
    ids=["fast", "slow", "too slow for any"],
)
def test_the_machine_chooses_the_first_body(
    monkeypatch: pytest.MonkeyPatch, machine: BodyRoom, body: str
) -> None:
    answer_with(monkeypatch, machine)
    app = opened()
    assert app.select_slider(key="target_body").value == body
    assert app.query_params["target_body"] == body
    assert label(app) == "Run"


@pytest.mark.usefixtures("by_the_machine")
def test_a_link_without_a_body_stays_without() -> None:
    app = opened(target_body=NO_BODY)
    assert app.select_slider(key="target_body").value == NO_BODY
    assert app.session_state["first body"].growing is None


@pytest.mark.usefixtures("by_the_machine")
def test_until_the_machine_has_answered_there_is_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer_with(monkeypatch, None)
    app = opened()
    assert "target_body" not in app.query_params
    assert UNTIL_GROWN in sent(app)["run"]["detail"]
    assert "target_body=none" in app.code[0].value
    asked[0].end(LAPTOP, None)
    sound(app.run())
    assert app.query_params["target_body"] == "smollm2-135m"


@pytest.mark.usefixtures("costs_of_the_grown", "real_start")  # the click comes in time
def test_run_before_the_target_has_grown_goes_without_a_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(FIRST_BODY, "10M")
    app = opened(length="24")
    assert app.query_params["target_body"] == "10M"
    assert UNTIL_GROWN in sent(app)["run"]["detail"]
    sound(app.button(key="run").click().run())
    until_over(app)
    run: Run = app.session_state["history"].current
    assert run.spec == PairSpec()
    assert EARLY_RUN in words(app)
    until(app, lambda: app.session_state["first body"].growing is None)
    sound(app.button(key="run").click().run())
    until_over(app)
    assert app.session_state["history"].current.spec == GROWN
    assert EARLY_RUN not in words(app)


@pytest.mark.usefixtures("by_the_machine")
def test_a_first_body_that_cannot_be_grown_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = DeviceError("A body of 90 M does not fit.", remedy="Choose a smaller body.")
    there = [PairStatus(preparing=True)]
    monkeypatch.setattr("specviz.worker.parent.client.Worker.status", lambda _: there[-1])
    monkeypatch.setenv(FIRST_BODY, "90M")
    app = opened()
    assert app.query_params["target_body"] == "90M"
    there.append(PairStatus(state="failed", spec=PairSpec(target_body="90M"), error=problem))
    sound(app.run())
    assert app.query_params["target_body"] == NO_BODY
    assert "does not fit" in app.error[0].value
    assert label(app) == "Run"


@pytest.mark.usefixtures("by_the_machine")
def test_another_choice_ends_the_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[object] = []
    growing = PairStatus(state="loading", spec=PairSpec(target_body="90M"), preparing=True)
    worker = "specviz.worker.parent.client.Worker"

    def cancel(asked: object) -> None:
        cancelled.append(asked)

    monkeypatch.setattr(f"{worker}.status", lambda _: growing)
    monkeypatch.setattr(f"{worker}.cancel_preparing", cancel)
    monkeypatch.setenv(FIRST_BODY, "90M")
    app = opened()
    assert app.session_state["first body"].growing == growing.spec
    sound(app.button(key="without_body").click().run())
    assert app.session_state["first body"].growing is None
    assert len(cancelled) == 1
    assert label(app) == "Run"

"""A kept run opened on Watch, and runs that cannot be saved."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.record.bodies import NO_BODY
from specviz.record.pairs import PairSpec
from specviz.record.trace import RoundTimes, RunConfig, Trace
from specviz.store import Library, load_trace
from specviz.store.saving import save_run
from specviz.ui.session.run_saving import RunSaver, the_run_saver
from specviz.ui.watch.first_body import FIRST_BODY
from specviz.worker.parent.client import Run
from tests.traces import BODY, full_trace, make_trace, with_bodies
from tests.ui.paging import opened, page_of, sent, sound
from tests.ui.runs_page import FIRST, home, library, runs_page

__all__ = ["home", "library"]  # fixtures


# Watch


def test_a_link_opens_a_kept_run_on_the_stage(library: Library) -> None:
    trace = load_trace(FIRST)
    run_id = save_run(library, trace, name="mine")
    app = opened(run=run_id)
    data = sent(app)
    assert (data["run"]["id"], data["run"]["state"]) == (run_id, "done")
    assert "mine" in data["run"]["detail"]
    assert data["rounds"]["total"] == len(trace.rounds)
    sound(app.button(key="close_opened").click().run())
    assert sent(app)["run"]["id"] == "recorded"
    assert "run" not in app.query_params


@pytest.mark.parametrize("before", ["none", "10M"])
def test_the_size_sliders_show_an_opened_run_until_it_is_closed(
    library: Library, before: str
) -> None:
    trace = load_trace(FIRST)
    enlarged = with_bodies(trace, target=BODY)
    app = opened(run=save_run(library, enlarged), target_body=before)
    assert app.select_slider(key="target_body").value == BODY.name
    sound(app.button(key="close_opened").click().run())
    assert app.select_slider(key="target_body").value == app.query_params["target_body"] == before


def test_closing_a_run_offers_the_default_size_again(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FIRST_BODY, "10M")
    monkeypatch.setattr("specviz.worker.parent.client.Worker.prepare", lambda *_, **__: None)
    app = opened(run=save_run(library, with_bodies(load_trace(FIRST), target=BODY)))
    assert app.session_state["first body"].offered is None
    sound(app.button(key="close_opened").click().run())
    assert app.select_slider(key="offered_target_body").value == "10M"
    assert "target_body" not in app.query_params
    assert app.session_state["first body"].offered == PairSpec(target_body="10M")


def test_closing_a_run_leaves_another_pair_as_it_is(library: Library) -> None:
    run_id = save_run(library, with_bodies(load_trace(FIRST), target=BODY))
    app = opened(run=run_id, target_body="10M")
    sound(app.segmented_control(key="pair").set_value("Local").run())
    sound(app.button(key="close_opened").click().run())
    assert app.query_params["target_body"] == NO_BODY


def test_the_controls_take_the_settings_of_an_opened_run(library: Library) -> None:
    config = RunConfig(
        gamma=3, temperature=0.25, top_k=7, top_p=0.9, max_new_tokens=41, seed=11,
        drafter="prompt-lookup", rule="over-accept", epsilon=0.2, residual="draft",
    )  # fmt: skip
    trace = make_trace(config=config)
    trace = replace(trace, prompt=replace(trace.prompt, text="The red fox"))
    app = opened(run=save_run(library, trace), gamma="9")
    sound(app.button(key="use_opened").click().run())
    names = ("gamma", "temperature", "top_k", "top_p", "seed", "drafter", "rule", "epsilon",
             "residual")  # fmt: skip
    asked: dict[str, Any] = {name: app.session_state[name] for name in names}
    assert RunConfig(max_new_tokens=app.session_state["length"], **asked) == config
    assert app.text_area(key="prompt").value == "The red fox"
    assert app.selectbox(key="preset").value == "custom prompt"
    assert sent(sound(app.run()))["run"]["state"] == "done"  # none was started
    assert app.slider(key="gamma").value == 3


def test_the_controls_ignore_settings_they_cannot_show(library: Library) -> None:
    app = opened(run=save_run(library, make_trace(config=RunConfig(gamma=20, stop=("x",)))))
    button = app.button(key="use_opened")
    assert button.disabled
    assert "gamma, stop strings" in button.help


def test_a_link_to_an_unknown_run_shows_an_error(library: Library) -> None:
    app = opened(run="<script>alert(1)</script>")
    message = app.error[0].value
    assert "There is no run" in message
    assert "script" in message
    assert str(library.path.parent) not in message
    assert sent(app)["run"]["id"] == "recorded"
    assert not sound(app.run()).error


@pytest.mark.parametrize("page", ["runs", "watch"])
def test_a_damaged_library_is_reported_without_its_path(home: Path, page: str) -> None:
    home.mkdir()
    (home / "runs.db").write_text("no database")
    app = page_of("runs") if page == "runs" else opened(run="nonsense")
    message = " ".join(each.value for each in app.error)
    assert "The run library is damaged" in message
    assert str(home.parent) not in message


def test_a_stopped_run_has_no_verdict_on_the_stage(library: Library) -> None:
    run_id = save_run(library, replace(make_trace(), finish="stopped"))
    data = sent(opened(run=run_id))
    assert data["run"]["state"] == "stopped"
    assert re.match(r"Stopped after \d+ rounds?: partial", data["summary"]["headline"])


# Failures


@pytest.mark.parametrize(
    ("superseded", "seconds", "saved"), [(True, 0.4, 0), (True, 1.2, 1), (False, 0.4, 1)]
)
def test_leaves_out_short_runs_that_a_changed_setting_stopped(
    library: Library, superseded: bool, seconds: float, saved: int
) -> None:
    trace = make_trace()
    times = RoundTimes(draft=seconds / len(trace.rounds), verify=0.0, other=0.0)
    run = begun_run(
        replace(trace, rounds=tuple(replace(each, times=times) for each in trace.rounds))
    )
    run.superseded = superseded
    run.end("stopped")
    RunSaver().save(run)
    assert library.count() == saved


def finished_run(trace: Trace) -> Run:
    run = begun_run(trace)
    run.end("done")
    return run


def begun_run(trace: Trace) -> Run:
    run = Run(
        session="a",
        spec=PairSpec(),
        config=trace.config,
        on_stop=lambda run: None,
    )
    run.conclude(replace(trace, rounds=()))
    for entry in trace.rounds:
        run.add(entry)
    return run


def test_saves_a_run_of_the_worker_under_its_id(library: Library) -> None:
    run = finished_run(full_trace())
    RunSaver().save(run)
    assert library.open(run.id) == run.trace == full_trace()


def test_reports_and_keeps_a_run_that_cannot_be_saved(home: Path, library: Library) -> None:
    home.mkdir()
    (home / "runs.db").write_bytes(b"no database at all")
    app = opened()
    the_run_saver().save(finished_run(full_trace()))
    sound(app.run())
    assert "not saved" in app.warning[0].value
    assert "Move the file away" in app.warning[0].value
    assert sent(app)["rounds"]["total"]
    assert "not saved" in sound(app.switch_page("pages/runs.py").run()).warning[0].value
    (home / "runs.db").unlink()
    the_run_saver().save(finished_run(full_trace()))
    assert not sound(app.run()).warning


def test_reports_a_file_that_is_not_a_library(home: Path) -> None:
    home.mkdir()
    (home / "runs.db").write_bytes(b"no database at all")
    assert "damaged" in runs_page().error[0].value
    assert "damaged" in opened(run="any").error[0].value
    assert (home / "runs.db").read_bytes() == b"no database at all"

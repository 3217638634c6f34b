"""Servers scores a draft that the engine does not run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.measure.run_makers import InProcessMaker
from specviz.ui.servers import draft_section
from specviz.ui.session.background_jobs import the_job_queue
from tests.servers.replaying import Served, replayed
from tests.servers.tapes import replayed_tape
from tests.servers.test_endpoint_scoring import other_ids
from tests.ui.paging import sound
from tests.ui.servers_page import ask, page_of, texts, vllm
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import ScoringMaker

__all__ = ["vllm"]  # a fixture

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> ScoringMaker:
    maker = ScoringMaker(has_costs=False)
    monkeypatch.setattr(draft_section, "EndpointMaker", lambda *_, **__: maker)
    return maker


def scored(app: AppTest) -> None:
    sound(app.button(key="server_score").click().run())
    job = the_job_queue().newest("servers-draft")
    assert job is not None
    assert job.wait(20)
    sound(app.run())


def test_scores_a_draft_that_the_engine_does_not_run(vllm: Served, scoring: ScoringMaker) -> None:
    app = page_of(server=vllm.address, server_draft="some/folder", server_length="32")
    scored(app)
    (study,) = {id(each): each for each in scoring.studies}.values()
    assert (study.config.max_new_tokens, len(study.samplings), study.costs) == (32, 4, False)
    assert "tokens per round, τ" in json.dumps(charts(app), ensure_ascii=False)
    assert "Give costs to see speedups" in texts(app)


def test_given_costs_show_speedups_as_on_tune(vllm: Served, scoring: ScoringMaker) -> None:
    app = page_of(server=vllm.address, server_draft="some/folder", server_costs="true")
    scored(app)
    assert "times the target's speed" in texts(app)
    assert "times the target alone" in json.dumps(charts(app))
    assert all(each.key != "tune_watch" for each in app.button)  # Watch cannot run it
    assert scoring.studies


def test_a_draft_on_another_machine_needs_confirmation(vllm: Served, scoring: ScoringMaker) -> None:
    app = page_of(server=vllm.address, server_draft="http://203.0.113.5:8000")
    sound(app.button(key="server_score").click().run())
    assert "Tick the box below its address" in app.error[0].value
    assert scoring.studies == []
    sound(app.checkbox[0].check().run())
    scored(app)
    assert scoring.studies


def test_scores_a_draft_at_another_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both addresses replay vLLM's answers of one model, so every token would be accepted."""
    monkeypatch.setattr(draft_section, "TEMPERATURES", (0.0,))  # the recording's
    monkeypatch.setattr(draft_section, "run_maker", lambda: InProcessMaker(lambda _: None))
    with replayed_tape("greedy-words") as target, replayed_tape("greedy-words") as draft:
        app = page_of(
            server=target.address, server_draft=draft.address, server_length="24",
            server_ignore_eos="true",
        )  # fmt: skip
        sound(app.text_area(key="server_prompt").input("Once upon a time").run())
        assert draft.asked == []
        scored(app)
        job: Any = the_job_queue().newest("servers-draft")
        assert job.error is None
        (text,) = job.answer.candidates[0].texts
        assert set(text.scores.odds) == {1.0}
        assert {path for path, _ in draft.asked} <= {path for path, _ in target.asked}
        assert draft.bodies
    assert "Give costs to see speedups" in texts(app)
    drawn = charts(app)["server_taus"]["data"][0]
    taus = {gamma: round(tau, 6) for gamma, tau in zip(drawn["x"], drawn["y"], strict=True)}
    assert taus[1] == 2.0


def test_reports_a_draft_with_another_tokenizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft_section, "TEMPERATURES", (0.0,))
    monkeypatch.setattr(draft_section, "run_maker", lambda: InProcessMaker(lambda _: None))
    with replayed_tape("greedy-words") as target, replayed_tape("greedy-words", other_ids) as draft:
        app = page_of(
            server=target.address, server_draft=draft.address, server_length="24",
            server_ignore_eos="true",
        )  # fmt: skip
        sound(app.text_area(key="server_prompt").input("Once upon a time").run())
        scored(app)
    assert "tokenize the text differently" in texts(app)


def test_an_engine_without_logprobs_scores_nothing() -> None:
    with replayed("llamacpp", "short") as engine:
        app = page_of(server=engine.address)
        assert "This engine does not report them" in texts(app)
        data = ask(app)
        assert data["run"]["engine"]["name"].startswith("llama.cpp")

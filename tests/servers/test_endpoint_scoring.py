"""Scores from recorded answers of real engines, against local scores of the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import torch

from specviz.errors import ConfigError, ServerError
from specviz.measure.run_makers import InProcessMaker, RunOrder
from specviz.record.pairs import PairSpec
from specviz.record.scores import ScoredText
from specviz.record.trace import RunConfig
from specviz.servers.endpoint_maker import EndpointMaker
from specviz.tune.tune_job import TuneJob
from tests.servers.replaying import Page, served
from tests.servers.tapes import CASES, DRAFT, FEW, Case, replayed_tape, worked

NAMED = {case.name: case for case in CASES}


@pytest.fixture(autouse=True)
def own_home(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    torch.set_num_threads(1)


@contextmanager
def through_servers(case: Case) -> Iterator[TuneJob]:
    with ExitStack() as stack:
        target = stack.enter_context(replayed_tape(case.name))
        draft = DRAFT
        if case.served_draft:
            draft = stack.enter_context(replayed_tape(f"{case.name}-draft")).address
        yield worked(case.question(target.address, draft), endpoints=True)


def texts(job: TuneJob) -> tuple[ScoredText, ...]:
    assert job.error is None, job.error
    return job.answer.candidates[0].texts


@pytest.mark.parametrize("name", ["unfiltered", "top-k", "whole"])
def test_odds_and_surface_equal_local_scoring(name: str) -> None:
    case = NAMED[name]
    ours = worked(case.question(None, DRAFT), endpoints=False)
    with through_servers(case) as theirs:
        (own,), (other,) = texts(ours), texts(theirs)
    assert other.token_ids == own.token_ids
    assert other.token_texts == own.token_texts
    assert own.scores is not None
    assert other.scores is not None
    assert other.scores.odds == pytest.approx(own.scores.odds, abs=1e-3)
    assert other.scores.text_probs == pytest.approx(own.scores.text_probs, abs=1e-3)
    if name == "unfiltered":
        for exact, (low, high) in zip(
            own.scores.overlaps, other.scores.overlap_bounds, strict=True
        ):
            assert low - 1e-4 <= exact <= high + 1e-4
        assert other.scores.overlaps == ()
    else:
        assert other.scores.overlaps == pytest.approx(own.scores.overlaps, abs=1e-3)
    cells = [each.answer.candidates[0].surface.cells for each in (ours, theirs)]
    assert [(a.gamma, a.temperature) for a in cells[0]] == [
        (b.gamma, 0 + b.temperature) for b in cells[1]
    ]
    for one, two in zip(*cells, strict=True):
        assert two.tau == pytest.approx(one.tau, abs=1e-3)
        assert two.speedup == pytest.approx(one.speedup, abs=1e-3)


def test_server_text_equals_local_text() -> None:
    case = NAMED["greedy-words"]
    ours = worked(case.question(None, DRAFT), endpoints=False)
    with through_servers(case) as theirs:
        (own,), (other,) = texts(ours), texts(theirs)
    assert other.token_ids == own.token_ids
    assert (other.own, other.doubt) == (True, "")


def test_doubts_text_that_does_not_follow_the_target() -> None:
    """The recorded engine answered like this at temperature 1."""
    with through_servers(NAMED["drawn-words"]) as job:
        (text,) = texts(job)
    assert "does not follow its target's distribution" in text.doubt
    assert job.answer.doubts == (f"T 1: {text.doubt}",)


def test_requests_whole_distributions_in_small_windows() -> None:
    with replayed_tape("whole") as target:
        worked(NAMED["whole"].question(target.address, DRAFT), endpoints=True)
        asked = [each["prompt"] for each in target.bodies if each.get("logprobs") == -1]
    assert asked
    assert all(isinstance(each, list) and len(each) <= 16 for each in asked)


def test_rejects_an_engine_without_distributions() -> None:
    models = b'{"object": "list", "data": [{"id": "some", "object": "model"}]}'
    with served({"/v1/models": Page(body=models)}) as server:
        job = worked(NAMED["unfiltered"].question(server.address, DRAFT), endpoints=True)
    assert isinstance(job.error, ServerError)
    assert "does not return distributions" in str(job.error)


def other_ids(answer: str) -> str:
    return answer.replace('"tokens":[', '"tokens":[7,')


def other_names(answer: str) -> str:
    return answer.replace('"decoded_token":" girl"', '"decoded_token":" boy"')


@pytest.mark.parametrize(
    ("alter", "reported"),
    [(other_ids, "tokenize the text differently"), (other_names, "' girl' for tiny at")],
)
def test_rejects_another_tokenizer(alter: Callable[[str], str], reported: str) -> None:
    with (
        replayed_tape("unfiltered") as target,
        replayed_tape("unfiltered-draft", alter) as draft,
    ):
        job = worked(NAMED["unfiltered"].question(target.address, draft.address), endpoints=True)
    assert isinstance(job.error, ServerError)
    assert reported in str(job.error)


def test_rejects_invalid_log_probabilities() -> None:
    def logits(answer: str) -> str:
        return answer.replace('"logprob":-', '"logprob":')

    with replayed_tape("unfiltered", logits) as target:
        job = worked(NAMED["unfiltered"].question(target.address, DRAFT), endpoints=True)
    assert "not raw log-probabilities" in str(job.error)


def test_served_draft_needs_a_served_target() -> None:
    spec = PairSpec(target="folder", draft="http://127.0.0.1:9")
    maker = EndpointMaker(InProcessMaker(lambda _: None))
    order = RunOrder(label="a run", spec=spec, prompt=FEW, config=RunConfig())
    with pytest.raises(ConfigError, match="is a server"):
        maker.make(order)
    question = NAMED["unfiltered"].question("folder", "http://127.0.0.1:9")
    job = TuneJob(question, maker)
    job.carry_out()
    assert "the target is not" in str(job.error)

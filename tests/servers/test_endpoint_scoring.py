"""Scores through a real engine's answers, as recorded, against our own scores of the same text."""

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


def texts(work: TuneJob) -> tuple[ScoredText, ...]:
    assert work.error is None, work.error
    return work.answer.candidates[0].texts


@pytest.mark.parametrize("name", ["unfiltered", "top-k", "whole"])
def test_odds_and_surface_are_our_own(name: str) -> None:
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


def test_a_server_s_own_words_are_those_that_ours_writes() -> None:
    case = NAMED["greedy-words"]
    ours = worked(case.question(None, DRAFT), endpoints=False)
    with through_servers(case) as theirs:
        (own,), (other,) = texts(ours), texts(theirs)
    assert other.token_ids == own.token_ids
    assert (other.own, other.doubt) == (True, "")


def test_words_that_are_not_the_target_s_are_doubted() -> None:
    """So the engine that was recorded answered at temperature 1."""
    with through_servers(NAMED["drawn-words"]) as work:
        (text,) = texts(work)
    assert "are not its target's" in text.doubt
    assert work.answer.doubts == (f"T 1: {text.doubt}",)


def test_a_law_that_lists_do_not_tell_asks_for_whole_ones_in_small_windows() -> None:
    with replayed_tape("whole") as target:
        worked(NAMED["whole"].question(target.address, DRAFT), endpoints=True)
        asked = [each["prompt"] for each in target.bodies if each.get("logprobs") == -1]
    assert asked
    assert all(isinstance(each, list) and len(each) <= 16 for each in asked)


def test_an_engine_without_laws_is_refused_in_a_line() -> None:
    models = b'{"object": "list", "data": [{"id": "some", "object": "model"}]}'
    with served({"/v1/models": Page(body=models)}) as server:
        work = worked(NAMED["unfiltered"].question(server.address, DRAFT), endpoints=True)
    assert isinstance(work.error, ServerError)
    assert "gives no laws of a text that is known" in str(work.error)


def other_ids(answer: str) -> str:
    return answer.replace('"tokens":[', '"tokens":[7,')


def other_names(answer: str) -> str:
    return answer.replace('"decoded_token":" girl"', '"decoded_token":" boy"')


@pytest.mark.parametrize(
    ("alter", "told"),
    [(other_ids, "divide the text into other tokens"), (other_names, "' girl' for tiny at")],
)
def test_another_tokenizer_is_refused(alter: Callable[[str], str], told: str) -> None:
    with (
        replayed_tape("unfiltered") as target,
        replayed_tape("unfiltered-draft", alter) as draft,
    ):
        work = worked(NAMED["unfiltered"].question(target.address, draft.address), endpoints=True)
    assert isinstance(work.error, ServerError)
    assert told in str(work.error)


def test_numbers_that_are_no_log_probabilities_are_refused() -> None:
    def logits(answer: str) -> str:
        return answer.replace('"logprob":-', '"logprob":')

    with replayed_tape("unfiltered", logits) as target:
        work = worked(NAMED["unfiltered"].question(target.address, DRAFT), endpoints=True)
    assert "no raw log-probabilities" in str(work.error)


def test_a_draft_behind_an_address_needs_a_target_there() -> None:
    spec = PairSpec(target="folder", draft="http://127.0.0.1:9")
    maker = EndpointMaker(InProcessMaker(lambda _: None))
    order = RunOrder(label="a run", spec=spec, prompt=FEW, config=RunConfig())
    with pytest.raises(ConfigError, match="is a server"):
        maker.make(order)
    question = NAMED["unfiltered"].question("folder", "http://127.0.0.1:9")
    work = TuneJob(question, maker)
    work.carry_out()
    assert "the target is not" in str(work.error)

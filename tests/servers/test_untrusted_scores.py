"""Impossible scores end with one error, and a stop ends a pending score."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from specviz.errors import ServerError
from specviz.measure.run_makers import InProcessMaker
from specviz.record.pairs import PairSpec
from specviz.servers import SERVER_KEY
from specviz.servers.connection import Connection
from specviz.servers.endpoint_maker import EndpointMaker
from specviz.servers.token_models import LocalModel, SglangModel
from specviz.tune.given_costs import given_costs
from specviz.tune.tune_job import TuneJob
from tests.servers.hostile_engines import (
    info_of,
    piece,
    recognisable,
)
from tests.servers.replaying import Handler, Page, events_page, served
from tests.servers.tapes import CASES, DRAFT, worked

pytestmark = pytest.mark.usefixtures("bounded")


def scoring(
    tokens: Sequence[int] = (1, 2, 3),
    own: float = -0.5,
    other: float = -2.0,
    words: Sequence[dict[str, Any]] = (),
) -> dict[str, Page]:
    """Return vLLM pages with these tokens, and log-probabilities of them and of token 99."""

    def divide(handler: Handler) -> None:
        handler.send(Page(body=json.dumps({"tokens": list(tokens)}).encode()))

    def complete(handler: Handler) -> None:
        asked: Any = handler.served.bodies[-1]
        if asked.get("stream"):
            handler.send(events_page([*words, piece("", finish_reason="length")]))
            return
        listed = {"99": {"logprob": other, "rank": 1}}
        rows = [{str(each): {"logprob": own, "rank": 50}, **listed} for each in asked["prompt"][0]]
        choice = {"index": 0, "prompt_logprobs": [None, *rows[1:]]}
        handler.send(Page(body=json.dumps({"choices": [choice]}).encode()))

    pages = {"/tokenize": Page(behave=divide), "/v1/completions": Page(behave=complete)}
    return {**recognisable("vllm"), **pages}


@pytest.mark.parametrize(
    ("name", "pages", "words"),
    [
        ("unfiltered", scoring(own=5.0), "not raw log-probabilities"),
        ("unfiltered", scoring(own=1e308), "not raw log-probabilities"),
        ("unfiltered", scoring(tokens=[1] * 100_000), "a short text into 100,000 tokens"),
        (
            "greedy-words",
            scoring(words=[piece("a"), piece("b", token_ids=[1])]),
            "does not report the token ids",
        ),
    ],
)
def test_rejects_impossible_scores(name: str, pages: dict[str, Page], words: str) -> None:
    (case,) = (each for each in CASES if each.name == name)
    with served(pages) as target, served(pages) as draft:
        job = worked(case.question(target.address, draft.address), endpoints=True)
    assert words in str(job.error)


def test_lowest_values_have_a_finite_difference() -> None:
    """Divided by a temperature of 0.1, -1e308 would be infinite."""
    (case,) = (each for each in CASES if each.name == "unfiltered")
    case, pages = replace(case, temperature=0.1, top_k=1), scoring(own=-1e308, other=-1e308)
    with served(pages) as target, served(pages) as draft:
        job = worked(case.question(target.address, draft.address), endpoints=True)
    assert job.error is None
    scores = job.answer.candidates[0].texts[0].scores
    assert scores is not None
    assert set(scores.overlaps) == {1.0}


def test_sglang_must_score_the_requested_tokens() -> None:
    row = [-1.0, 7, "x"]
    answer = {"meta_info": {"input_token_logprobs": [row], "input_top_logprobs": [[row]]}}
    with served({"/generate": Page(body=json.dumps(answer).encode())}) as server:
        connection = Connection(server.address, key=SERVER_KEY)
        model = SglangModel(info_of("sglang", server.address), connection)
        assert len(list(model.distributions((1,), (7,), 1))) == 1
        with pytest.raises(ServerError, match="reports token 7 instead of 8"):
            list(model.distributions((1,), (8,), 1))


def test_rejects_a_token_that_the_draft_lacks() -> None:
    model = LocalModel(PairSpec(target=DRAFT, threads=1), InProcessMaker(lambda _: None))
    with pytest.raises(ServerError, match="The text has token id 1099511627776"):
        list(model.distributions((1,), (2**40,), 1))


@pytest.mark.parametrize("path", ["/v1/models", "/tokenize"])
def test_stop_ends_a_pending_score(path: str) -> None:
    def hanging(handler: Handler) -> None:
        handler.served.over.wait(60)

    pages = {**recognisable("vllm"), path: Page(behave=hanging)}
    (case,) = (each for each in CASES if each.name == "unfiltered")
    with served(pages) as server:
        job = TuneJob(
            case.question(server.address, server.address),
            EndpointMaker(InProcessMaker(lambda _: None)), given=given_costs(0.1, 1.2),
        )  # fmt: skip
        thread = Thread(target=job.carry_out)
        thread.start()
        while not any(each == path for each, _ in server.asked):
            time.sleep(0.02)
        job.stop()
        thread.join(10)
        assert not thread.is_alive()
    assert (job.state, job.error) == ("stopped", None)

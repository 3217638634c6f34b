"""Impossible counts and endless answers end with one error, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import (
    EngineName,
    ServerRound,
    ServerSettings,
    ServerTotals,
)
from specviz.servers import ask
from specviz.servers.baseline import timed_answer
from specviz.servers.connection import Limits
from specviz.store import Library
from specviz.store.saving import save_run
from tests.servers.hostile_engines import (
    ENGINES,
    LIMITS,
    PATHS,
    SETTINGS,
    answered,
    counted,
    figures_are_possible,
    info_of,
    piece,
    vllm_report,
)
from tests.servers.replaying import Handler, Page, events_page, served

pytestmark = pytest.mark.usefixtures("bounded")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([counted(1, 4, 2**53 - 1), counted(2, 8, 0)], "but only 4 drafted"),
        ([counted(1, 4, 3), counted(2, 8, 0)], "0 accepted candidates, but reported 3 before"),
        ([counted(1, 4, 1), counted(2, 2, 1)], "2 drafted candidates, but reported 4 before"),
        ([counted(2, 4, 1), counted(1, 4, 1)], "1 tokens, but reported 2 before"),
        ([counted(1, 4, 5)], "5 accepted candidates, but only 4 drafted"),
        ([counted(1, 4, 0), counted(2, 8, 5)], "a round with 4 drafted and 5 accepted"),
        ([counted(10**9, 7, 7)], "8 were requested"),
        ([counted(9, 0, 0)], "8 were requested"),
        ([counted(1, 2**53 - 1, 0)], "candidates; 8 tokens were requested"),
        ([counted(1, 2000, 2000)], "a round with 2,000 drafted"),
    ],
)
def test_impossible_llamacpp_totals_end_the_answer(
    events: Sequence[dict[str, Any]], words: str
) -> None:
    trace, failure = answered("llama.cpp", events_page(events))
    assert words in failure
    assert trace.finish == "stopped"
    assert trace.notices == (failure,)
    figures_are_possible(trace)


@pytest.mark.parametrize(
    ("engine", "events", "words"),
    [
        ("vllm", [vllm_report(num_draft_tokens=4, num_accepted_draft_tokens=8)],
         "8 accepted candidates, but only 4 drafted"),
        ("vllm", [vllm_report(num_draft_tokens=4, num_accepted_draft_tokens=5)],
         "5 accepted candidates, but only 4 drafted"),
        (
            "vllm",
            [vllm_report(per_step_accepted=[5], per_step_drafted=[4], num_spec_steps=1)],
            "a round with 4 drafted and 5 accepted",
        ),
        (
            "vllm",
            [vllm_report(num_spec_steps=3), vllm_report(num_spec_steps=2)],
            "2 rounds, but reported 3 before",
        ),
        ("vllm", [piece("abc", token_ids=list(range(9)))], "9 tokens; 8 were requested"),
        ("vllm", [{"usage": {"completion_tokens": 9}}], "9 tokens; 8 were requested"),
        ("openai", [{"usage": {"completion_tokens": 5}}, {"usage": {"completion_tokens": 4}}],
         "4 tokens, but reported 5 before"),
        (
            "lmstudio",
            [{"stats": {"total_draft_tokens_count": 4, "accepted_draft_tokens_count": 8}}],
            "8 accepted candidates, but only 4 drafted",
        ),
        (
            "sglang",
            [{"meta_info": {"completion_tokens": 1, "spec_num_correct_drafts": 8,
                            "spec_num_proposed_drafts": 4}}],
            "8 accepted candidates, but only 4 drafted",
        ),
        ("sglang", [{"meta_info": {"completion_tokens": each}} for each in (3, 2)],
         "2 tokens, but reported 3 before"),
        ("sglang", [{"output_ids": list(range(9)), "text": "x", "meta_info": {}}], "9 tokens"),
        ("sglang", [{"meta_info": {"spec_verify_ct": 500}}], "500 rounds; 8 tokens were requested"),
    ],
)  # fmt: skip
def test_impossible_totals_end_the_answer(
    engine: EngineName, events: Sequence[dict[str, Any]], words: str
) -> None:
    trace, failure = answered(engine, events_page([*events, piece("never read")]))
    assert words in failure
    assert "never read" not in trace.text
    figures_are_possible(trace)


@pytest.mark.parametrize("engine", ENGINES)
def test_too_many_events_end_the_answer(engine: EngineName) -> None:
    page = Page(body=b"data: {}\n\n" * 20_000, kind="text/event-stream")
    _, failure = answered(engine, page)
    assert "events for one answer" in failure


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "openai"])
def test_too_much_text_ends_the_answer(engine: EngineName) -> None:
    text = "x" * 10_000
    event = counted(1, 0, 0, text) if engine == "llama.cpp" else piece(text)
    _, failure = answered(engine, events_page([event] * 10))
    assert "characters for one answer" in failure


def test_lines_without_an_event_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.servers.connection.MAX_LINES", 1000)
    page = Page(body=b": alive\n" * 2000, kind="text/event-stream")
    _, failure = answered("vllm", page)
    assert "more than 1,000 lines" in failure


def test_lines_are_counted_over_the_whole_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.servers.connection.MAX_LINES", 100)

    def trickle(handler: Handler) -> None:
        handler.begin_stream()
        for _ in range(200):
            handler.wfile.write(b": alive\n")
            handler.wfile.flush()
            time.sleep(0.002)  # so that most lines arrive in a piece of their own

    _, failure = answered("vllm", Page(behave=trickle))
    assert "more than 100 lines" in failure


def test_stop_ends_a_stream_that_never_pauses() -> None:
    def endless(handler: Handler) -> None:
        handler.begin_stream()
        while not handler.served.over.is_set():
            handler.wfile.write(b": alive\n" * 1000)

    with served({PATHS["vllm"]: Page(behave=endless)}) as server:
        answer = ask(info_of("vllm", server.address), "Once", SETTINGS)
        time.sleep(0.2)
        answer.stop()
        assert list(answer) == []  # which would never end otherwise


def test_time_limit_grows_with_the_tokens() -> None:
    """Two seconds per token are within the limit."""
    from specviz.servers.asking import _limits_for

    assert _limits_for(ServerSettings(max_new_tokens=2000)).total >= 4000


def test_unexpected_failure_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("int too large to convert")

    monkeypatch.setattr("specviz.servers.openai.TextReading.take", broken)
    _, failure = answered("openai", events_page([piece("a")]))
    assert "cannot be read (OverflowError)" in failure
    monkeypatch.undo()
    monkeypatch.setattr("specviz.servers.openai.TextReading.outcome", broken)
    trace, failure = answered("openai", events_page([piece("a")]))
    assert "cannot be read (OverflowError)" in failure
    assert (trace.rounds, trace.finish) == ((), "stopped")


def test_rejects_an_answer_without_chunks_or_end() -> None:
    for events in ([], [{"usage": {"completion_tokens": 3}}]):
        _, failure = answered("openai", events_page(events))
        assert "before the answer was complete" in failure


@pytest.mark.parametrize(
    "flood",
    [
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n\n\r\n" * 50,
    ],
)
def test_stop_ends_a_flood_without_events(flood: bytes) -> None:
    first, rest = flood, flood.partition(b"\r\n\r\n")[2]

    def endless(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(first)
        while not handler.served.over.is_set():
            handler.wfile.write(rest)

    with served({PATHS["vllm"]: Page(behave=endless)}) as server:
        answer = ask(info_of("vllm", server.address), "Once", SETTINGS)
        time.sleep(0.2)
        answer.stop()
        began = time.monotonic()
        assert list(answer) == []
        while not answer._read_all:  # the reading thread has ended, too
            assert time.monotonic() - began < 10
            time.sleep(0.01)


def test_accepts_slow_engines_with_keep_alive_lines() -> None:
    def slow(handler: Handler) -> None:
        handler.begin_stream()
        handler.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
        for text in ("a", "b"):
            for _ in range(3):
                handler.served.over.wait(0.25)
                handler.wfile.write(b": keep-alive\n\n\n")
            handler.event({"choices": [{"delta": {"content": text}}], "usage": None})
        handler.event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        handler.event({"choices": [], "usage": {"prompt_tokens": 1}})

    limits = Limits(connect=1.0, between=0.65, total=10.0)
    with served({"/v1/chat/completions": Page(behave=slow)}) as server:
        settings = replace(SETTINGS, chat=True)
        answer = ask(info_of("openai", server.address), "Once", settings, limits=limits)
        list(answer)
    assert (answer.trace().text, answer.trace().finish) == ("ab", "length")


def test_reasoning_under_two_names_appears_once() -> None:
    delta = {"reasoning_content": "hm", "reasoning": "hm", "content": " so"}
    page = events_page([{"choices": [{"delta": delta, "finish_reason": "stop"}]}])
    with served({"/v1/chat/completions": page}) as server:
        settings = replace(SETTINGS, chat=True)
        answer = ask(info_of("openai", server.address), "Once", settings, limits=LIMITS)
        list(answer)
    assert answer.trace().text == "hm so"


def generated(ids: Sequence[int], text: str, count: int, **meta: Any) -> dict[str, Any]:
    """Return an event of SGLang."""
    info = {"completion_tokens": count, **meta}
    return {"output_ids": list(ids), "text": text, "meta_info": info}


ENDED = {"finish_reason": {"type": "length"}}


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (generated([1, 9, 3], "abc", 3, **ENDED), "changes tokens"),
        (generated([1, 2, 3], "xyz", 3, **ENDED), "changes text"),
    ],
)
def test_sglang_cannot_change_what_it_has_sent(last: dict[str, Any], words: str) -> None:
    trace, failure = answered("sglang", events_page([generated([1, 2], "ab", 2), last]))
    assert words in failure
    assert (trace.text, trace.finish) == ("ab", "stopped")


@pytest.mark.parametrize(
    ("events", "text", "tokens"),
    [
        ([generated([1, 2], "ab", 2), generated([1, 2, 3], "a", 3, **ENDED)], "ab", 3),
        ([generated([1], "a", 1), generated([2], "b", 2), generated([1, 2, 3], "abc", 3, **ENDED)],
         "abc", 3),
        ([generated([], "a", 1), generated([], "abc", 3, **ENDED)], "abc", 3),
        ([generated([], "a", 1), generated([], "bc", 3, **ENDED)], "abc", 3),
        ([generated([1], "", 1), generated([1], "ab", 1, **ENDED)], "ab", 1),
    ],
)  # fmt: skip
def test_sglang_sends_all_or_new_text_with_or_without_ids(
    events: Sequence[dict[str, Any]], text: str, tokens: int
) -> None:
    trace, failure = answered("sglang", events_page(events))
    assert (failure, trace.text, trace.num_tokens) == ("", text, tokens)


@pytest.mark.parametrize(
    "events",
    [
        [piece("a", token_ids=[1]), piece("abcdefg", token_ids=list(range(7))),
         vllm_report(num_spec_steps=1, num_draft_tokens=3, num_accepted_draft_tokens=3,
              num_spec_tokens=3)],
        [piece("ab", token_ids=[1, 2]),
         vllm_report(num_spec_steps=1, num_draft_tokens=8192, num_accepted_draft_tokens=1,
              num_spec_tokens=8192)],
        [piece("a", token_ids=[1]), piece("b", token_ids=[1]),
         vllm_report(num_spec_steps=1, num_draft_tokens=8000, num_accepted_draft_tokens=5000)],
    ],
)  # fmt: skip
def test_impossible_totals_leave_chunks_and_a_valid_trace(
    events: Sequence[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    trace, failure = answered("vllm", events_page([*events, piece("", finish_reason="length")]))
    assert (failure, trace.grounds) == ("", "chunks")
    assert Library().open_any(save_run(Library(), trace)) == trace


def test_totals_and_steps_of_vllm_must_agree() -> None:
    event = vllm_report(
        per_step_accepted=[4, 4], per_step_drafted=[4, 4], num_spec_steps=2, num_draft_tokens=1
    )
    trace, failure = answered("vllm", events_page([event]))
    assert "1 drafted candidates, but 8 in its steps" in failure
    figures_are_possible(trace)


def test_does_not_time_a_count_below_the_chunks() -> None:
    rounds = tuple(
        ServerRound(index=place, texts=("a",), num_tokens=0, at=float(place)) for place in range(20)
    )
    trace, _ = answered("openai", events_page([piece("a", finish_reason="stop")]))
    liar = replace(trace, rounds=rounds, totals=ServerTotals(tokens=2))
    with pytest.raises(ServerError, match="sent 20 chunks but counts 2 tokens"):
        timed_answer(liar)

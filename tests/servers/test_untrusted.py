"""Hostile engines: every attack ends with one error, in bounded time, without leftovers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from specviz.errors import ServerError
from specviz.figures.server_figures import server_metrics
from specviz.measure.run_makers import InProcessMaker
from specviz.record.limits import MAX_DRAFTED
from specviz.record.pairs import PairSpec
from specviz.record.server_run import (
    Capabilities,
    Counters,
    EngineName,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
    ServerTrace,
)
from specviz.servers import SERVER_KEY, ask, counters_of_dump, find_server, read_counters
from specviz.servers.baseline import timed_answer
from specviz.servers.connection import Connection, Limits
from specviz.servers.counters import rates
from specviz.servers.endpoint_maker import EndpointMaker
from specviz.servers.foreign_json import KeyRemover, decoded
from specviz.servers.pieces import Prompt
from specviz.servers.prometheus import samples_of
from specviz.servers.token_models import LocalModel, SglangModel
from specviz.servers.vllm_log import counters_of_log
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.tune.given_costs import given_costs
from specviz.tune.tune_job import TuneJob
from tests.servers.replaying import Handler, Page, events_page, served
from tests.servers.tapes import CASES, DRAFT, worked

SETTINGS = ServerSettings(max_new_tokens=8)
LIMITS = Limits(connect=1.0, between=1.0, total=3.0)
KEY = "sk-0123456789abcdef"
ESCAPED = "".join(f"\\u{ord(each):04x}" for each in KEY)
PATHS = {
    "vllm": "/v1/completions",
    "llama.cpp": "/completion",
    "sglang": "/generate",
    "lmstudio": "/api/v0/completions",
    "openai": "/v1/completions",
}
ENGINES: tuple[EngineName, ...] = ("vllm", "llama.cpp", "sglang", "lmstudio", "openai")


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 8


@pytest.fixture
def with_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", "127.0.0.1")


def info_of(engine: EngineName, address: str = "http://127.0.0.1:1") -> ServerInfo:
    return ServerInfo(
        address=address, engine=engine, version=None, model="tiny", gamma=4,
        capabilities=Capabilities(speculates=True, rounds=True),
    )  # fmt: skip


def answered(
    engine: EngineName,
    page: Page,
    *,
    settings: ServerSettings = SETTINGS,
    prompt: Prompt = "Once",
) -> tuple[ServerTrace, str]:
    """Return the trace of an answer and its failure; yielded rounds must be those of the trace."""
    with served({PATHS[engine]: page}) as server:
        answer = ask(info_of(engine, server.address), prompt, settings, limits=LIMITS)
        failure = ""
        try:
            for _ in answer:
                pass
        except ServerError as error:
            failure = str(error)
            assert "\n" not in failure
        return answer.trace(), failure


def counted(tokens: int, drafted: int, accepted: int, text: str = "a") -> dict[str, Any]:
    """Return an event of llama.cpp."""
    totals = {"predicted_n": tokens, "draft_n": drafted, "draft_n_accepted": accepted}
    return {"content": text, "tokens": [1], "timings": totals, "stop": False}


def figures_are_possible(trace: ServerTrace) -> None:
    figures = server_metrics(trace)
    assert figures.tau is None or figures.tau >= 1
    assert figures.draft_acceptance_rate is None or 0 <= figures.draft_acceptance_rate <= 1
    for each in trace.rounds:
        assert 0 <= each.num_tokens <= trace.settings.max_new_tokens
        assert each.accepted is None or 0 <= each.accepted <= MAX_DRAFTED
    assert trace.num_tokens <= trace.settings.max_new_tokens


# Counts


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([counted(1, 4, 2**53 - 1), counted(2, 8, 0)], "accepted of 4 drafted"),
        ([counted(1, 4, 3), counted(2, 8, 0)], "0 accepted candidates after 3"),
        ([counted(1, 4, 1), counted(2, 2, 1)], "2 drafted candidates after 4"),
        ([counted(2, 4, 1), counted(1, 4, 1)], "1 tokens after 2"),
        ([counted(1, 4, 5)], "5 accepted of 4 drafted"),
        ([counted(1, 4, 0), counted(2, 8, 5)], "a round with 5 accepted of 4"),
        ([counted(10**9, 7, 7)], "8 were requested"),
        ([counted(9, 0, 0)], "8 were requested"),
        ([counted(1, 2**53 - 1, 0)], "candidates for 8 tokens"),
        ([counted(1, 2000, 2000)], "a round with 2,000 accepted"),
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


def vllm_report(**of_speculation: Any) -> dict[str, Any]:
    return {"metrics": {"speculative_decoding": of_speculation}, "choices": []}


def piece(text: str, **of_choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": None, **of_choice}]}


@pytest.mark.parametrize(
    ("engine", "events", "words"),
    [
        ("vllm", [vllm_report(num_draft_tokens=4, num_accepted_draft_tokens=8)], "8 accepted of 4"),
        (
            "vllm",
            [vllm_report(per_step_accepted=[5], per_step_drafted=[4], num_spec_steps=1)],
            "a round with 5 accepted of 4",
        ),
        (
            "vllm",
            [vllm_report(num_spec_steps=3), vllm_report(num_spec_steps=2)],
            "2 rounds after 3",
        ),
        ("vllm", [piece("abc", token_ids=list(range(9)))], "9 tokens; 8 were requested"),
        ("vllm", [{"usage": {"completion_tokens": 9}}], "9 tokens; 8 were requested"),
        ("openai", [{"usage": {"completion_tokens": 5}}, {"usage": {"completion_tokens": 4}}],
         "4 tokens after 5"),
        (
            "lmstudio",
            [{"stats": {"total_draft_tokens_count": 4, "accepted_draft_tokens_count": 8}}],
            "8 accepted of 4",
        ),
        (
            "sglang",
            [{"meta_info": {"completion_tokens": 1, "spec_num_correct_drafts": 8,
                            "spec_num_proposed_drafts": 4}}],
            "8 accepted of 4",
        ),
        ("sglang", [{"meta_info": {"completion_tokens": each}} for each in (3, 2)],
         "2 tokens after 3"),
        ("sglang", [{"output_ids": list(range(9)), "text": "x", "meta_info": {}}], "9 tokens"),
        ("sglang", [{"meta_info": {"spec_verify_ct": 500}}], "500 rounds for 8 tokens"),
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


def test_stop_ends_a_stream_that_never_pauses() -> None:
    def endless(handler: Handler) -> None:
        handler.begin_stream()
        while not handler.served.over.is_set():
            handler.wfile.write(b": alive\n" * 1000)

    with served({PATHS["vllm"]: Page(behave=endless)}) as server:
        answer = ask(info_of("vllm", server.address), "Once", SETTINGS)
        time.sleep(0.2)
        answer.stop()
        began = time.monotonic()
        assert list(answer) == []
        assert time.monotonic() - began < 1


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
            assert time.monotonic() - began < 1
            time.sleep(0.01)


def test_accepts_slow_engines_with_keep_alive_lines() -> None:
    def slow(handler: Handler) -> None:
        handler.begin_stream()
        handler.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
        for text in ("a", "b"):
            for _ in range(3):
                handler.served.over.wait(0.2)
                handler.wfile.write(b": keep-alive\n\n\n")
            handler.event({"choices": [{"delta": {"content": text}}], "usage": None})
        handler.event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        handler.event({"choices": [], "usage": {"prompt_tokens": 1}})

    limits = Limits(connect=1.0, between=0.5, total=5.0)
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
    assert "1 drafted candidates, and 8 by step" in failure
    figures_are_possible(trace)


def test_does_not_time_a_count_below_the_chunks() -> None:
    rounds = tuple(
        ServerRound(index=place, texts=("a",), num_tokens=0, at=float(place)) for place in range(20)
    )
    trace, _ = answered("openai", events_page([piece("a", finish_reason="stop")]))
    liar = replace(trace, rounds=rounds, totals=ServerTotals(tokens=2))
    with pytest.raises(ServerError, match="sent 20 chunks but counts 2 tokens"):
        timed_answer(liar)


# Numbers and texts in JSON


def raw(body: str) -> Page:
    return Page(body=f"data: {body}\n\ndata: [DONE]\n\n".encode(), kind="text/event-stream")


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "Infinity", "1e999", "1" * 400, "-" + "9" * 400, "0.5", "true", '"x"'],
)
@pytest.mark.parametrize("engine", ["vllm", "openai"])
def test_notice_for_invalid_log_probabilities(engine: EngineName, value: str) -> None:
    listed = f'{{"tokens": ["a", "b"], "token_logprobs": [-0.5, {value}]}}'
    choice = f'{{"index": 0, "text": "ab", "logprobs": {listed}, "finish_reason": "stop"}}'
    trace, failure = answered(engine, raw(f'{{"choices": [{choice}]}}'))
    assert failure == ""
    assert [each.logprobs for each in trace.rounds] == [()]
    assert any("Ignored log-probabilities" in each for each in trace.notices)
    json.dumps(trace.text, allow_nan=False)


def test_replaces_lone_surrogates() -> None:
    trace, failure = answered("openai", raw(r'{"choices": [{"text": "a\ud800b"}]}'))
    assert failure == ""
    assert trace.text in ("a?b", "a\ufffdb")
    trace.text.encode()


@pytest.mark.parametrize(
    "body", ['{"a": ' * 100_000, "[" * 100_000, '{"choices": [{"text": ' + "[" * 3000]
)
def test_rejects_deep_nesting(body: str) -> None:
    _, failure = answered("openai", raw(body))
    assert "not JSON" in failure


def test_cuts_names_to_one_line() -> None:
    names = ["m" * 10**6, "two\nlines\x1b[2J", "\ud800"]
    models = {"data": [{"id": each, "owned_by": None} for each in names]}
    with served({"/v1/models": Page(body=json.dumps(models).encode())}) as server:
        assert len(find_server(server.address).model) == 200
        assert find_server(server.address, model="two lines [2J").model == "two lines [2J"


def test_rejects_bodies_with_too_many_values() -> None:
    with pytest.raises(ValueError, match="too many values"):
        decoded("[" + "[]," * 4_000_000 + "[]]", KeyRemover(None))


def test_pages_have_single_and_total_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"/v1/models": Page(body=b" " * 17_000_000)}
    with served(pages) as server, pytest.raises(ServerError, match="more than 16 MB"):
        find_server(server.address)

    def slow(handler: Handler) -> None:
        handler.served.over.wait(0.4)
        handler.send(Page(body=b'{"data": [{"id": "tiny"}]}'))

    monkeypatch.setattr("specviz.servers.finding._PAGES", 2)
    paths = ("/v1/models", "/metrics", "/version", "/props", "/server_info", "/api/v0/models")
    with served(dict.fromkeys(paths, Page(behave=slow))) as server:
        began = time.monotonic()
        with pytest.raises(ServerError, match="did not finish"):
            find_server(server.address, limits=Limits(connect=1.0, between=1.0, total=0.5))
        assert time.monotonic() - began < 1.5


def test_reads_counters_in_linear_time() -> None:
    began = time.monotonic()
    samples_of(("vllm:x{" + "a" * 9000 + "} 1\n") * 100)
    assert samples_of('vllm:x{a="' + "a" * 20_000 + '"} 1') == ()
    assert time.monotonic() - began < 2


# The key


def pieces_of(text: str, *cuts: int) -> list[dict[str, Any]]:
    ends = [*cuts, len(text)]
    return [piece(text[a:b]) for a, b in zip([0, *cuts], ends, strict=True)]


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize("engine", ["vllm", "openai"])
@pytest.mark.parametrize("cuts", [(), (9,), (8, 10, 14, 20), tuple(range(1, 24))])
def test_removes_an_echoed_key(engine: EngineName, cuts: tuple[int, ...]) -> None:
    with served({PATHS[engine]: events_page(pieces_of(f"so it {KEY} is sk-0", *cuts))}) as server:
        answer = ask(info_of(engine, server.address), "Once", SETTINGS, limits=LIMITS)
        shown = ""
        for entry in answer:
            shown += "".join(entry.texts)
            assert KEY not in shown
            assert KEY not in answer.trace().text
    trace = answer.trace()
    assert trace.text == shown == "so it [key] is sk-0"
    assert KEY not in repr(trace)
    assert KEY[:10] not in repr(trace)


SPELLED = {
    "upper": KEY.upper(),
    "json": ESCAPED,
    "nested": ESCAPED.replace("\\", "\\\\\\"),
    "percent": "".join(f"%25{ord(each):02X}" for each in KEY),
    "html": "".join(f"&#x{ord(each):x};" for each in KEY),
}


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("spelling", SPELLED)
def test_finds_an_escaped_key_across_chunks(spelling: str, size: int) -> None:
    text = f"so {SPELLED[spelling]} end"
    events = pieces_of(text, *range(size, len(text), size))
    settings = replace(SETTINGS, max_new_tokens=500)
    with served({PATHS["openai"]: events_page(events)}) as server:
        answer = ask(info_of("openai", server.address), "Once", settings, limits=LIMITS)
        shown = "".join(text for entry in answer for text in entry.texts)
    assert shown == answer.trace().text == "so [key] end"


def test_searches_the_key_in_linear_time() -> None:
    remover, began = KeyRemover(KEY), time.monotonic()
    for text in ("\\" * 10**6, "s" * 10**6, "%25" * 10**5, f"{KEY} " * 10**4):
        remover.from_text(text)
    rounds = [ServerRound(index=0, texts=(KEY * 100,), num_tokens=1, at=0.0)] * 1000
    assert all(each.texts == ("[key]" * 100,) for each in remover.from_rounds(rounds, over=True))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("spelled", [r"ab\/cd\"efgh", "%61b%2fcd%22efgh", 'AB/CD"EFGH'])
def test_finds_json_escaped_characters_in_a_key(spelled: str) -> None:
    for before in ("so ", "so \\"):
        assert KeyRemover('ab/cd"efgh').from_text(f"{before}{spelled}.") == f"{before}[key]."


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize("space", [" " * 9990, "x" * 9990])
def test_truncated_error_has_no_part_of_the_key(space: str) -> None:
    _, failure = answered("openai", Page(status=500, body=f"{space}{KEY}{space}".encode()))
    assert KEY[:3] not in failure


def test_removes_a_key_split_over_tokens() -> None:
    texts = ["so ", KEY[:7], KEY[7:], "!"]
    assert KeyRemover(KEY).from_tokens(texts) == ("so ", "[key]", "", "!")


@pytest.mark.usefixtures("with_key")
def test_removes_token_ids_with_the_key() -> None:
    listed = {"tokens": [KEY[:9], KEY[9:], "!"], "token_logprobs": [-1.0, -1.0, -1.0]}
    event = piece(f"{KEY}!", token_ids=[1, 2, 3], logprobs=listed)
    trace, _ = answered("vllm", events_page([event]))
    (entry,) = trace.rounds
    assert (entry.texts, entry.token_ids, entry.logprobs) == (("[key]!",), (), ())
    assert entry.num_tokens == 3


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize(
    "body",
    [
        f'{{"error": {{"message": "bad {ESCAPED}"}}}}',
        f'{{"error": {{"{ESCAPED}": "x"}}}}',
        json.dumps({"error": f'{{"message": "bad {ESCAPED}"}}'}),
        json.dumps({"detail": [f"bad {KEY}"]}),
        f"<html>{KEY}</html>",
        f'{{"error": "cut short {ESCAPED}',
        '{"message": "' + "x" * 280 + f'{KEY}"}}',
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_errors_do_not_contain_the_key(body: str, status: int) -> None:
    for page in (Page(status=status, body=body.encode()), raw(f'{{"error": {json.dumps(body)}}}')):
        trace, failure = answered("openai", page)
        assert failure
        for text in (failure, repr(trace)):
            assert KEY not in text
            assert ESCAPED not in text
            assert KEY[:12] not in text


@pytest.mark.usefixtures("with_key")
def test_names_and_redirects_do_not_contain_the_key() -> None:
    models = {"data": [{"id": f"model-{KEY}"}]}
    with served({"/v1/models": Page(body=json.dumps(models).encode())}) as server:
        assert find_server(server.address).model == "model-[key]"
    location = "http://127.0.0.1:1/%73k-0123456789abcdef"
    with served({"/v1/models": Page(status=302, headers={"Location": location})}) as server:
        with pytest.raises(ServerError, match="redirects") as caught:
            find_server(server.address)
        assert KEY[1:] not in str(caught.value)


# Counters


def test_bounds_positions() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = ["vllm:spec_decode_num_drafts_total 9"]
    places = ("1" * 5000, "1" * 300, "-1", "\u0663", "1024", "x", "", "0", "1")
    lines += [f'{name}{{position="{place}"}} 5' for place in places]
    page = "\n".join(lines)
    assert counters_of_dump(page).accepted_at == (5.0, 5.0)
    pages = {
        "/v1/models": Page(body=b'{"data": [{"id": "tiny", "owned_by": "vllm"}]}'),
        "/version": Page(body=b'{"version": "0.32.0"}'),
        "/metrics": Page(body=page.encode(), kind="text/plain"),
    }
    with served(pages) as server:
        assert find_server(server.address).gamma == 2


@pytest.mark.parametrize("value", ["1e308", "-5", "1e17", "-1e308"])
def test_notice_for_impossible_counters(value: str) -> None:
    lines = [
        f'vllm:spec_decode_num_draft_tokens_total{{engine="{each}"}} {value}' for each in "abc"
    ]
    found = counters_of_dump("\n".join(["vllm:spec_decode_num_drafts_total 3", *lines]))
    assert (found.drafts, found.drafted) == (3, None)
    assert len(found.notices) == 1


def test_notice_for_more_accepted_than_drafted() -> None:
    page = (
        "vllm:spec_decode_num_drafts_total 3\nvllm:spec_decode_num_draft_tokens_total 10\n"
        "vllm:spec_decode_num_accepted_tokens_total 20\n"
    )
    found = counters_of_dump(page)
    assert (found.drafted, found.accepted) == (10, None)
    assert "it exceeds the drafted one" in found.notices[0]


def test_notice_for_more_candidates_than_rounds_can_draft() -> None:
    found = counters_of_dump(
        "vllm:spec_decode_num_drafts_total 1\nvllm:spec_decode_num_draft_tokens_total 4000\n"
        "vllm:spec_decode_num_accepted_tokens_total 4000\n"
    )
    assert (found.drafts, found.drafted, found.accepted) == (1, None, None)
    assert "than the rounds can have drafted" in found.notices[0]


def test_rates_never_exceed_one() -> None:
    before = Counters(at=0.0, drafts=10.0, drafted=40.0, accepted=2.0, accepted_at=(2.0,))
    after = Counters(at=1.0, drafts=11.0, drafted=41.0, accepted=11.0, accepted_at=(9.0,))
    found = rates(before, after)
    assert found is not None
    assert (found.draft_acceptance_rate, found.accepted_length) == (None, None)
    assert found.alpha_by_position == ()
    assert found.drafted_per_second == 1.0


def test_counter_has_one_name_per_engine() -> None:
    """Only one of four names counts, and counters of another engine are ignored."""
    page = (
        "vllm:generation_tokens_total 7\nvllm:generation_tokens 1000\n"
        "llamacpp:tokens_predicted_total 50000\nsglang:generation_tokens_total 199010\n"
    )
    found = counters_of_dump(page)
    assert found.generated == 7
    assert len(found.notices) == 2
    with served({"/metrics": Page(body=page.encode(), kind="text/plain")}) as server:
        assert read_counters(info_of("sglang", server.address)).generated == 199010
        assert read_counters(info_of("vllm", server.address)).generated == 7


def test_repeated_series_counts_once() -> None:
    assert counters_of_dump('vllm:generation_tokens_total{e="0"} 7\n' * 4).generated == 7


LOG_LINE = (
    "SpecDecoding metrics: Mean acceptance length: {length}, Accepted throughput: 1.00 tokens/s, "
    "Drafted throughput: 1.00 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
    "Per-position acceptance rate: {shares}, Avg Draft acceptance rate: 1.0%"
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"accepted": "9" * 4500},
        {"accepted": "50"},
        {"length": "1.2.3"},
        {"length": "9" * 4000},
        {"shares": "0.5,,0.5"},
        {"shares": "7.5"},
        {"length": "nan"},
    ],
)
def test_skips_impossible_log_lines(wrong: dict[str, str]) -> None:
    right = {"length": "2.00", "accepted": "5", "drafted": "10", "shares": "0.500"}
    log = "\n".join(LOG_LINE.format(**each) for each in (right, {**right, **wrong}))
    found = counters_of_log(log)
    assert found[-1].accepted in (5, 10)  # a length of nan is possible where nothing was drafted


# Two engines behind one address


def recognisable(*engines: str) -> dict[str, Page]:
    pages = {"/v1/models": Page(body=b'{"data": [{"id": "tiny", "owned_by": "vllm"}]}')}
    if "vllm" in engines:
        pages["/version"] = Page(body=b'{"version": "0.32.0"}')
    if "llama.cpp" in engines:
        pages["/props"] = Page(body=b'{"default_generation_settings": {}, "build_info": "b1"}')
    return pages


def test_rejects_two_engines_at_one_address() -> None:
    with served(recognisable("vllm", "llama.cpp")) as server:
        with pytest.raises(ServerError, match=r"as vLLM 0\.32\.0 and as llama\.cpp b1") as caught:
            find_server(server.address)
        assert "single engine" in caught.value.remedy


def test_explains_a_missing_page_of_a_recognised_engine() -> None:
    page = Page(status=404, body=b"{}")
    _, failure = answered("llama.cpp", page)
    assert "answers 404, although llama.cpp was recognised there" in failure
    assert "Several engines may share" in failure


# Which address gets the key

ADDRESSES = {
    "": [],
    "http://127.0.0.1:8000": ["http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"],
    "https://api.example.com": ["https://api.example.com", "https://api.example.com:443/v1"],
    "https://example.com/one": ["https://example.com/one"],
    "api.example.com": ["https://api.example.com", "https://api.example.com:444"],
    "*.example.com": ["https://api.example.com", "https://api.example.com:444"],
    "127.0.0.1": ["http://127.0.0.1:8000", "http://127.0.0.1:9"],
    "localhost:9, 127.0.0.1:9": ["http://127.0.0.1:9"],
}
ASKED = [
    "http://127.0.0.1:8000", "http://127.0.0.1:9", "http://localhost:8000",
    "https://api.example.com", "http://api.example.com", "https://api.example.com:444",
    "https://example.com", "https://example.com/one", "https://example.com/onetwo",
    "https://badexample.com", "https://api.example.com.evil.org",
]  # fmt: skip


@pytest.mark.parametrize("bound", ADDRESSES)
def test_sends_a_key_only_to_its_address(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from specviz.servers.address import checked_address, key_for, withheld_key

    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", bound)
    expected = {checked_address(each, allow_remote=True) for each in ADDRESSES[bound]}
    asked = {checked_address(each, allow_remote=True) for each in [*ASKED, *ADDRESSES[bound]]}
    given = {each for each in asked if key_for(SERVER_KEY, each) == KEY}
    assert given == expected
    for address in asked - given:
        assert key_for(SERVER_KEY, address) is None
        assert f"{SERVER_KEY}_FOR" in withheld_key(SERVER_KEY, address)
        assert KEY not in withheld_key(SERVER_KEY, address)
    for address in given:
        assert withheld_key(SERVER_KEY, address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "https://example.com/one/../two", "https://example.com/one/%2e%2e/two",
        "https://example.com/one%2f..%2ftwo", "https://example.com/one/%252e%252e/two",
        "https://example.com/one\\..\\two", "https://evil.org\\.localhost", "https://a;b.localhost",
    ],
)  # fmt: skip
def test_rejects_addresses_with_dot_segments(address: str) -> None:
    from specviz.servers.address import checked_address

    with pytest.raises(ServerError, match="is not an"):
        checked_address(address, allow_remote=True)


@pytest.mark.parametrize(
    "entry", ["*.", "::1", "me:secret@example.org", "https://*.example.org/.."]
)
def test_names_but_does_not_show_an_invalid_entry(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specviz.servers.address import key_for

    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", f"127.0.0.1,{entry}")
    with pytest.raises(ServerError, match=f"{SERVER_KEY}_FOR is not an address") as caught:
        key_for(SERVER_KEY, "https://evil.org.")
    assert "secret" not in str(caught.value)


def test_explains_why_an_address_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", "https://api.example.com")
    with served({"/v1/models": Page(status=401)}) as server:
        with pytest.raises(ServerError, match="gets no key") as caught:
            find_server(server.address)
        assert f"{SERVER_KEY}_FOR={server.address}" in caught.value.remedy
    assert all("Authorization" not in headers for _, headers in server.asked)


def test_trace_keeps_the_requested_settings() -> None:
    """An engine cannot change the requested settings in the trace."""
    trace, _ = answered("openai", events_page([piece("a", finish_reason="stop")]))
    assert trace.settings == SETTINGS
    assert replace(trace.info, address="") == replace(info_of("openai"), address="")


# Scores through a server


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
        handler.served.over.wait(6)

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
        began = time.monotonic()
        job.stop()
        thread.join(5)
        assert time.monotonic() - began < 1
    assert (job.state, job.error) == ("stopped", None)

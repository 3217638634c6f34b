"""SGLang and LM Studio, never run here: events from their sources and documentation."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.record.server_run import ServerSettings, ServerTrace
from specviz.servers import ask, find_server
from specviz.servers.engines import ENGINES
from tests.servers.replaying import Page, Served, events_page, served

SETTINGS = ServerSettings(max_new_tokens=8)
IDS = [10, 11, 12, 13, 14, 15, 16, 17]
STEPS = (1, 3, 1, 3)  # tokens of the first pass, then of three rounds with 3 candidates each
TOTALS = {"spec_verify_ct": 3, "spec_num_correct_drafts": 4, "spec_num_proposed_drafts": 9}
OLDER = {"spec_verify_ct": 3, "spec_accept_token_num": 4, "spec_draft_token_num": 9}


def json_page(value: object) -> Page:
    import json

    return Page(body=json.dumps(value).encode())


def sglang(events: list[dict[str, Any]], info_path: str = "/server_info") -> dict[str, Page]:
    server_info = {
        "version": "0.5.23",
        "speculative_algorithm": "STANDALONE",
        "speculative_num_draft_tokens": 4,
        "internal_states": [{"avg_spec_accept_length": 2.3}],
    }
    listed = {"data": [{"id": "tiny", "owned_by": "sglang"}]}
    return {
        "/v1/models": json_page(listed),
        info_path: json_page(server_info),
        "/metrics": Page(body=b"sglang:spec_verify_calls_total 3\n"),
        "/generate": events_page(events),
    }


def steps(totals: dict[str, int], *, so_far: bool, sizes: tuple[int, ...] = STEPS) -> list[Any]:
    found, count = [], 0
    for size in sizes:
        first, count = count, count + size
        last = count == len(IDS)
        shown = slice(0 if so_far else first, count)
        meta: dict[str, Any] = {"prompt_tokens": 2, "completion_tokens": count}
        meta["finish_reason"] = {"type": "length", "length": 8} if last else None
        text = "".join(f" {each}" for each in IDS[shown])
        found.append({"text": text, "output_ids": IDS[shown], "meta_info": meta})
    found[-1]["meta_info"] |= totals
    return found


def answered(server: Served) -> ServerTrace:
    answer = ask(find_server(server.address), "Once", SETTINGS)
    list(answer)
    return answer.trace()


@pytest.mark.parametrize("totals", [TOTALS, OLDER])
@pytest.mark.parametrize("so_far", [True, False])
@pytest.mark.parametrize("info_path", ["/server_info", "/get_server_info"])
def test_sglang_chunks_are_steps(totals: dict[str, int], so_far: bool, info_path: str) -> None:
    with served(sglang(steps(totals, so_far=so_far), info_path)) as server:
        info = find_server(server.address)
        trace = answered(server)
    assert (info.engine, info.version, info.gamma) == ("sglang", "0.5.23", 3)
    assert info.capabilities.counters
    assert trace.grounds == "checked chunks"
    assert trace.token_ids == tuple(IDS)
    assert trace.text == "".join(f" {each}" for each in IDS)
    assert [(r.drafted, r.accepted) for r in trace.rounds] == [(None, None), (3, 2), (3, 0), (3, 2)]
    assert (trace.totals.rounds, trace.totals.drafted, trace.totals.accepted) == (3, 9, 4)
    assert (trace.finish, trace.prompt_tokens) == ("length", 2)


def test_sglang_merged_chunks_are_not_rounds() -> None:
    with served(sglang(steps(TOTALS, so_far=True, sizes=(1, 4, 3)))) as server:
        trace = answered(server)
    assert trace.grounds == "chunks"
    assert "may have merged" in trace.notices[0]
    assert trace.totals.accepted == 4


def test_lm_studio_reports_totals_without_rounds() -> None:
    stats = {"total_draft_tokens_count": 9, "accepted_draft_tokens_count": 4}
    listed = {"id": "tiny", "object": "model", "compatibility_type": "gguf", "state": "loaded"}
    words = [{"choices": [{"index": 0, "text": f" {each}"}]} for each in IDS]
    ended = {
        "choices": [{"index": 0, "text": "", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": len(IDS)},
        "stats": {"tokens_per_second": 51.4, **stats},
    }
    pages = {
        "/v1/models": json_page({"data": [{"id": "tiny", "owned_by": "organization_owner"}]}),
        "/version": json_page({"error": "Unexpected endpoint or method. (GET /version)"}),
        "/api/v0/models": json_page({"data": [listed]}),
        "/api/v0/completions": events_page([*words, ended]),
    }
    with served(pages) as server:
        info = find_server(server.address)
        trace = answered(server)
    assert info.engine == "lmstudio"
    assert (trace.grounds, trace.finish) == ("none", "eos")
    assert (trace.totals.drafted, trace.totals.accepted, trace.totals.tokens) == (9, 4, 8)
    assert [each.num_tokens for each in trace.rounds] == [1] * 8


def test_untested_engines_are_marked() -> None:
    for engine in ENGINES:
        assert engine.known_from.startswith("not run here") is not engine.run_here


def test_other_servers_give_text_chunks() -> None:
    """A chat with reasoning; the number of tokens is reported at the end."""
    deltas = [{"role": "assistant"}, {"reasoning_content": "Hm"}, {"content": " so"}]
    chat: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": each}]} for each in deltas]
    chat += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    chat += [{"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 5}}]
    pages = {
        "/v1/models": json_page({"data": [{"id": "tiny"}]}),
        "/v1/chat/completions": events_page(chat),
    }
    with served(pages) as server:
        info = find_server(server.address)
        answer = ask(info, "Once", ServerSettings(chat=True))
        list(answer)
        assert server.bodies[0]["messages"] == [{"role": "user", "content": "Once"}]
    trace = answer.trace()
    assert (info.engine, info.capabilities.speculates) == ("openai", None)
    assert [each.texts for each in trace.rounds] == [("Hm",), (" so",)]
    assert [each.num_tokens for each in trace.rounds] == [0, 0]
    assert (trace.totals.tokens, trace.finish, trace.grounds) == (5, "eos", "none")

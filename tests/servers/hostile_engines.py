"""Answers and pages of engines that send impossible things."""

from __future__ import annotations

from typing import Any

from specviz.errors import ServerError
from specviz.figures.server_figures import server_metrics
from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import (
    Capabilities,
    EngineName,
    ServerInfo,
    ServerSettings,
    ServerTrace,
)
from specviz.servers import ask
from specviz.servers.connection import Limits
from specviz.servers.pieces import Prompt
from tests.servers.replaying import Page, served

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
    """Return the trace of an answer and the message of its failure, empty without one."""
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


def vllm_report(**of_speculation: Any) -> dict[str, Any]:
    return {"metrics": {"speculative_decoding": of_speculation}, "choices": []}


def piece(text: str, **of_choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": None, **of_choice}]}


def raw(body: str) -> Page:
    return Page(body=f"data: {body}\n\ndata: [DONE]\n\n".encode(), kind="text/event-stream")


def pieces_of(text: str, *cuts: int) -> list[dict[str, Any]]:
    ends = [*cuts, len(text)]
    return [piece(text[a:b]) for a, b in zip([0, *cuts], ends, strict=True)]


def recognisable(*engines: str) -> dict[str, Page]:
    pages = {"/v1/models": Page(body=b'{"data": [{"id": "tiny", "owned_by": "vllm"}]}')}
    if "vllm" in engines:
        pages["/version"] = Page(body=b'{"version": "0.32.0"}')
    if "llama.cpp" in engines:
        pages["/props"] = Page(body=b'{"default_generation_settings": {}, "build_info": "b1"}')
    return pages

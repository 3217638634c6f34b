"""Recorded answers of real engines: rounds, totals, counters and finish reasons."""

from __future__ import annotations

import json

import pytest

from specviz.figures.server_figures import server_metrics, whole_rounds
from specviz.figures.server_words import reported_and_missing
from specviz.record.server_run import ServerRound, ServerSettings, ServerTrace
from specviz.servers import ask, find_server, read_counters
from tests.servers.replaying import ANSWERS, Served, replayed

SPECULATING = [
    (engine, answer)
    for engine, answers in {
        "vllm": ("short", "ended", "drawn", "merged"),
        "vllm-chat": ("short", "ended", "drawn", "merged"),
        "llamacpp": ("short", "ended", "drawn"),
        "llamacpp-chat": ("short", "ended", "drawn"),
    }.items()
    for answer in answers
]


def answered(server: Served, max_new_tokens: int = 80) -> ServerTrace:
    chat = "/v1/chat/completions" in server.pages
    settings = ServerSettings(max_new_tokens=max_new_tokens, chat=chat)
    answer = ask(find_server(server.address), "Once", settings)
    landed = list(answer)
    trace = answer.trace()
    assert sum(each.num_tokens for each in landed) == trace.num_tokens
    return trace


def drafted(trace: ServerTrace) -> list[ServerRound]:
    return [each for each in trace.rounds if each.drafted is not None]


@pytest.mark.parametrize(
    ("engine", "name", "gamma", "speculates"),
    [
        ("vllm", "vllm", 5, True),
        ("vllm-plain", "vllm", None, False),
        ("vllm-chat", "vllm", 5, True),
        ("llamacpp", "llama.cpp", 5, True),
        ("llamacpp-plain", "llama.cpp", None, False),
        ("llamacpp-chat", "llama.cpp", 5, True),
    ],
)
def test_recognises_engines(engine: str, name: str, gamma: int | None, speculates: bool) -> None:
    with replayed(engine) as server:
        info = find_server(server.address)
    assert (info.engine, info.model, info.gamma) == (name, "tiny", gamma)
    assert info.version == json.loads((ANSWERS / engine / "pages.json").read_text())["version"]
    assert info.capabilities.speculates is speculates
    assert info.capabilities.counters


def test_does_not_promise_what_only_an_answer_shows() -> None:
    """vLLM reports steps only with an option, and its pages do not show whether it is set."""
    promised = {}
    for engine in ("vllm", "llamacpp"):
        with replayed(engine) as server:
            reported, _ = reported_and_missing(find_server(server.address))
        promised[engine] = [each for each in reported if each.startswith("counts of drafted")]
    assert len(promised["llamacpp"]) == 2
    assert promised["vllm"] == [
        f"{each} (if enabled at the engine's start)" for each in promised["llamacpp"]
    ]


@pytest.mark.parametrize(("engine", "answer"), SPECULATING)
def test_rounds_add_up_to_the_engines_totals(engine: str, answer: str) -> None:
    with replayed(engine, answer) as server:
        trace = answered(server)
    rounds, totals = drafted(trace), trace.totals
    assert trace.grounds == ("told" if engine.startswith("vllm") else "counted")
    assert totals.drafted == sum(each.drafted or 0 for each in rounds)
    assert totals.accepted == sum(each.accepted or 0 for each in rounds)
    assert totals.rounds in (None, len(rounds))
    assert totals.tokens == trace.num_tokens
    assert len(trace.token_ids) == (0 if engine == "llamacpp-chat" else trace.num_tokens)
    assert trace.rounds[0].num_tokens == 1
    assert trace.rounds[0].drafted is None
    for each in rounds[:-1]:
        assert each.num_tokens == (each.accepted or 0) + 1
        assert len(each.texts) == each.num_tokens


@pytest.mark.parametrize(("engine", "answer"), SPECULATING)
def test_finish_reasons(engine: str, answer: str) -> None:
    with replayed(engine, answer) as server:
        trace = answered(server)
    ended = answer in ("ended", "merged")
    assert trace.finish == ("eos" if ended else "length")
    if engine != "llamacpp-chat":
        assert (trace.token_ids[-1] == 0) is ended


def test_engines_agree_on_a_greedy_text() -> None:
    found = []
    for engine in ("vllm", "vllm-plain", "llamacpp", "llamacpp-plain"):
        with replayed(engine, "short") as server:
            found.append(answered(server))
    assert len({trace.token_ids for trace in found}) == 1
    assert len({trace.text for trace in found}) == 1


@pytest.mark.parametrize("kind", ["", "-chat"])
@pytest.mark.parametrize(("answer", "limit"), [("short", 40), ("ended", 80)])
def test_engines_agree_on_tokens_per_round_of_a_greedy_text(
    answer: str, limit: int, kind: str
) -> None:
    """Rounds at the end are left out, since engines shorten and count them differently."""
    found = []
    for engine in ("vllm", "llamacpp"):
        with replayed(engine + kind, answer) as server:
            found.append(answered(server, limit))
    first, second = ([each.num_tokens for each in whole_rounds(trace)] for trace in found)
    assert first == second
    assert len(first) > 7
    assert len({(trace.text, trace.prompt_tokens) for trace in found}) == 1


@pytest.mark.parametrize("engine", ["vllm", "vllm-chat"])
def test_splits_merged_chunks_like_separate_ones(engine: str) -> None:
    def shape(trace: ServerTrace) -> list[tuple[object, ...]]:
        return [(r.texts, r.token_ids, r.drafted, r.accepted) for r in trace.rounds]

    with replayed(engine, "merged") as server:
        merged = answered(server)
    with replayed(engine, "ended") as server:
        single = answered(server)
    assert shape(merged) == shape(single)
    counts = [sum(each.merged for each in trace.rounds) for trace in (single, merged)]
    assert counts[0] < counts[1]
    for before, each in zip(merged.rounds, merged.rounds[1:], strict=False):
        assert not each.merged or each.at == before.at


@pytest.mark.parametrize("engine", ["vllm-plain", "llamacpp-plain"])
def test_chunks_are_not_rounds_without_speculation(engine: str) -> None:
    with replayed(engine, "short") as server:
        trace = answered(server)
    assert trace.grounds == "none"
    assert len(trace.rounds) == trace.num_tokens == 40
    assert not drafted(trace)
    assert trace.totals.drafted is None
    figures = server_metrics(trace)
    assert figures.tau is None
    assert figures.num_drafted is None


def test_llamacpp_chat_reports_missing_ids() -> None:
    with replayed("llamacpp-chat", "short") as server:
        chat = answered(server)
    with replayed("llamacpp", "short") as server:
        text = answered(server)
    assert chat.notices == ("llama.cpp does not report the token ids of a chat.",)
    assert text.notices == ()


@pytest.mark.parametrize("engine", ["vllm", "vllm-chat", "llamacpp", "llamacpp-chat"])
def test_counters_match_the_answers(engine: str) -> None:
    names = [answer for each, answer in SPECULATING if each == engine]
    rounds = list[ServerRound]()
    with replayed(engine) as server:
        found = read_counters(find_server(server.address))
    for answer in names:
        with replayed(engine, answer) as server:
            rounds += drafted(answered(server))
    assert found.drafts == len(rounds)
    assert found.drafted == sum(each.drafted or 0 for each in rounds)
    assert found.accepted == sum(each.accepted or 0 for each in rounds)
    assert found.accepted_at == tuple(
        sum((each.accepted or 0) > place for each in rounds) for place in range(5)
    )


def test_checks_chunks_with_totals_without_a_report() -> None:
    """vLLM's answers at the level ``summary``, and without a level."""
    with replayed("vllm", "ended") as server:
        reported = answered(server)
        _drop(server, "per_step_accepted", "per_step_drafted")
        summary = answered(server)
        _drop(server, "metrics")
        silent = answered(server)
    assert summary.grounds == "checked chunks"
    assert summary.totals == reported.totals
    assert [(r.token_ids, r.drafted, r.accepted) for r in summary.rounds] == [
        (r.token_ids, r.drafted, r.accepted) for r in reported.rounds
    ]
    assert silent.grounds == "chunks"
    assert silent.totals.accepted is None
    assert "--per-request-spec-decode-metrics" in silent.notices[0]


def test_merged_chunks_are_not_rounds() -> None:
    with replayed("vllm", "merged") as server:
        _drop(server, "per_step_accepted", "per_step_drafted")
        trace = answered(server)
    assert trace.grounds == "chunks"
    assert "do not match the steps" in trace.notices[0]


def _drop(server: Served, *names: str) -> None:
    page = server.pages["/v1/completions"]
    lines = page.body.decode().splitlines()
    server.pages["/v1/completions"].body = "\n".join(
        line if line in ("", "data: [DONE]") else f"data: {_without(line[6:], names)}"
        for line in lines
    ).encode()


def _without(event: str, names: tuple[str, ...]) -> str:
    def kept(found: dict[str, object]) -> dict[str, object]:
        return {name: value for name, value in found.items() if name not in names}

    return json.dumps(json.loads(event, object_hook=kept))


def test_prompt_can_be_token_ids() -> None:
    with replayed("vllm", "short") as server:
        answer = ask(find_server(server.address), (5, 6), ServerSettings())
        list(answer)
        assert server.bodies[0]["prompt"] == [5, 6]
    trace = answer.trace()
    assert (trace.prompt, trace.prompt_ids) == ("", (5, 6))

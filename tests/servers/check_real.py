"""The adapters against real engines with the embedded pair: ``python -m tests.servers.check_real``.

Ten greedy prompts of 80 tokens. An engine's rounds must match its totals and the growth of its
counters, and its text and acceptance must match ours. The same is checked with merged chunks,
against the target alone, and as chats. Prints figures; exits with 1 if one is wrong.
"""

from __future__ import annotations

import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specviz.engine import Pair, load_pair, speculate
from specviz.engine.model.chat import encode_prompt
from specviz.record.drafters import MODEL
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.server_run import Counters, ServerInfo, ServerRound, ServerSettings, ServerTrace
from specviz.record.trace import Round, RunConfig
from specviz.servers import SERVER_KEY, ask, find_server, rates, read_counters
from specviz.servers.asking import Answer
from specviz.servers.baseline import blocks_against, speedup_of
from specviz.servers.connection import PATIENT, Connection, Line
from specviz.servers.engines import engine_of
from tests.servers import real_engines

LENGTH = 80
SETTINGS = ServerSettings(max_new_tokens=LENGTH)
PROMPTS = tuple(preset.text for preset in read_presets()[:10])


class Findings:
    """Prints findings, and remembers whether any was wrong."""

    def __init__(self) -> None:
        self.wrong = 0

    def check(self, what: str, right: int, of: int) -> None:
        self.wrong += right != of
        print(f"  {what}: {right} of {of}{'' if right == of else '  WRONG'}", flush=True)


class SlowConnection(Connection):
    """Reads slowly with a small buffer, so that chunks pile up in the engine."""

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        super()._note(event, info)
        if event == "connection.connect_tcp.complete" and self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def lines(self, path: str, body: Mapping[str, Any]) -> Iterator[Line]:
        for line in super().lines(path, body):
            time.sleep(0.02)
            yield line


def main() -> int:
    findings, pair = Findings(), pair_of(real_engines.PAIR)
    for engine in ("vllm", "llamacpp"):
        if reason := real_engines.missing(engine):
            print(reason)
            continue
        with real_engines.running(engine) as address:
            info = find_server(address)
            print(f"{info.title}, γ {info.gamma}")
            check_prompts(info, pair, SETTINGS, findings)
            if engine == "vllm":
                check_merged(info, findings)
            with real_engines.running(f"{engine}-plain") as plain:
                compare(info, find_server(plain))
        check_chats(engine, findings)
    return findings.wrong


def pair_of(folder: Path) -> Pair:
    draft, target = (str(folder / role) for role in ("draft", "target"))
    return load_pair(PairSpec(threads=1, dtype="float32", draft=draft, target=target))


def check_chats(engine: str, findings: Findings) -> None:
    with (
        TemporaryDirectory() as folder,
        real_engines.running(f"{engine}-chat") as address,
    ):
        pair, info = pair_of(real_engines.write_chat_pair(Path(folder))), find_server(address)
        print(f"{info.title}, γ {info.gamma}, chats")
        check_prompts(info, pair, replace(SETTINGS, chat=True), findings)


def check_prompts(
    info: ServerInfo, pair: Pair, settings: ServerSettings, findings: Findings
) -> None:
    before = read_counters(info)
    traces = [finished(ask(info, prompt, settings)) for prompt in PROMPTS]
    after = counters_after(info, before, sum(trace.num_tokens for trace in traces))
    summed = [*(adds_up(trace) for trace in traces)]
    findings.check("rounds add up to the engine's totals", sum(summed), len(traces))
    findings.check("and to its counters", agreed(before, after, traces), 4)
    lengths = [trace.prompt_tokens == len(prompt_ids(pair, trace)) for trace in traces]
    findings.check("prompts have as many tokens as ours", sum(lengths), len(traces))
    print(f"  grounds: {dict(Counter(trace.grounds for trace in traces))}")
    gamma = info.gamma or real_engines.GAMMA
    ours = [our_rounds(pair, trace, gamma) for trace in traces]
    words = [same_text(pair, trace) for trace in traces]
    findings.check("greedy text equals ours", sum(words), len(words))
    same = [same_rounds(trace, rounds) for trace, rounds in zip(traces, ours, strict=True)]
    findings.check("rounds are ours", sum(same), len(same))
    print_rates(traces, ours)
    print(f"  by its counters: {rates(before, after)}")


def finished(answer: Answer) -> ServerTrace:
    for _ in answer:
        pass
    return answer.trace()


def counters_after(info: ServerInfo, before: Counters, tokens: int) -> Counters:
    """Wait, since an engine counts an answer a moment after its last chunk."""
    end = time.monotonic() + 10
    while True:
        found = read_counters(info)
        if time.monotonic() > end or (found.generated or 0) - (before.generated or 0) >= tokens:
            return found
        time.sleep(0.2)


def drafted_rounds(trace: ServerTrace) -> list[ServerRound]:
    return [each for each in trace.rounds if each.drafted is not None]


def adds_up(trace: ServerTrace) -> bool:
    reported, totals = drafted_rounds(trace), trace.totals
    return (
        trace.grounds in ("told", "counted")
        and totals.drafted == sum(each.drafted or 0 for each in reported)
        and totals.accepted == sum(each.accepted or 0 for each in reported)
        and totals.rounds in (None, len(reported))
        and totals.tokens == trace.num_tokens
        and (has_no_ids(trace) or trace.num_tokens == len(trace.token_ids))
    )


def agreed(before: Counters, after: Counters, traces: list[ServerTrace]) -> int:
    """Return how many of drafts, drafted, accepted and accepted by position agree."""
    reported = [each for trace in traces for each in drafted_rounds(trace)]
    positions = range(len(after.accepted_at))
    old = (*before.accepted_at, *(0 for _ in positions))
    return sum(
        (
            (after.drafts or 0) - (before.drafts or 0) == len(reported),
            (after.drafted or 0) - (before.drafted or 0) == sum(r.drafted or 0 for r in reported),
            (after.accepted or 0) - (before.accepted or 0)
            == sum(r.accepted or 0 for r in reported),
            all(
                after.accepted_at[place] - old[place]
                == sum((r.accepted or 0) > place for r in reported)
                for place in positions
            ),
        )
    )


def has_no_ids(trace: ServerTrace) -> bool:
    return trace.settings.chat and trace.info.engine == "llama.cpp"


def same_text(pair: Pair, trace: ServerTrace) -> bool:
    ours = our_words(pair, trace)
    if has_no_ids(trace):
        return pair.tokenizer.decode(ours, skip_special_tokens=True) == trace.text
    return ours == trace.token_ids


def our_words(pair: Pair, trace: ServerTrace) -> tuple[int, ...]:
    config = RunConfig(
        temperature=0.0, max_new_tokens=LENGTH, gamma=5, record=False, drafter=drafter_of(pair)
    )
    run = speculate(pair, prompt_ids(pair, trace), config)
    for _ in run:
        pass
    return run.emitted


def drafter_of(pair: Pair) -> str:
    return MODEL if pair.head is None else pair.head.method


def prompt_ids(pair: Pair, trace: ServerTrace) -> list[int]:
    return encode_prompt(pair, trace.prompt, chat=trace.settings.chat)


def our_rounds(pair: Pair, trace: ServerTrace, gamma: int) -> list[Round]:
    """Return our rounds from where the other engine begins to draft, after its first token."""
    config = RunConfig(
        temperature=0.0, max_new_tokens=LENGTH - 1, gamma=gamma, drafter=drafter_of(pair)
    )
    first = our_words(pair, trace)[0]
    return list(speculate(pair, [*prompt_ids(pair, trace), first], config))


def same_rounds(trace: ServerTrace, ours: list[Round]) -> bool:
    """Return the rounds without the last, whose drafts engines shorten differently."""
    theirs = [(each.num_tokens, each.accepted) for each in trace.rounds[1:]]
    mine = [(len(each.emitted), each.num_accepted) for each in ours]
    return theirs[: len(mine) - 1] == mine[:-1]


def print_rates(traces: list[ServerTrace], ours: list[list[Round]]) -> None:
    """Print the share of accepted candidates, and their number per round.

    Only the full-length rounds that both have count.
    """
    pairs = [
        (theirs, mine)
        for trace, rounds in zip(traces, ours, strict=True)
        for theirs, mine in zip(trace.rounds[1:], rounds, strict=False)
        if theirs.drafted == mine.num_drafted and mine.cut is None
    ]
    drafted = sum(mine.num_drafted for _, mine in pairs)
    theirs = sum(each.accepted or 0 for each, _ in pairs)
    mine = sum(each.num_accepted for _, each in pairs)
    print(
        f"  accepted / drafted on {len(pairs)} rounds: {theirs / drafted:.4f}, ours "
        f"{mine / drafted:.4f}; accepted per round: {theirs / len(pairs):.3f}, ours "
        f"{mine / len(pairs):.3f}"
    )


def check_merged(info: ServerInfo, findings: Findings) -> None:
    by_interval = [
        (prompt, asked(info, prompt, SETTINGS, stream_interval=17)) for prompt in PROMPTS
    ]
    compare_merged(info, "merged by the stream interval", by_interval, SETTINGS, findings)
    long = replace(SETTINGS, max_new_tokens=400, ignore_eos=True)
    slow = [(prompt, asked(info, prompt, long, slow=True, logprobs=100)) for prompt in PROMPTS[:1]]
    compare_merged(info, "merged by a slow reader", slow, long, findings)


def asked(
    info: ServerInfo, prompt: str, settings: ServerSettings, *, slow: bool = False, **more: Any
) -> ServerTrace:
    engine = engine_of(info)
    request = engine.adapter.request(info, prompt, settings)
    kind = SlowConnection if slow else Connection
    connection = kind(info.address, key=SERVER_KEY, limits=PATIENT)
    request = replace(request, body={**request.body, **more})
    reading = engine.reading(info, settings)
    return finished(Answer(info, prompt, settings, connection, request, reading))


def compare_merged(
    info: ServerInfo,
    what: str,
    found: list[tuple[str, ServerTrace]],
    settings: ServerSettings,
    findings: Findings,
) -> None:
    def shape(trace: ServerTrace) -> list[tuple[object, ...]]:
        return [(r.token_ids, r.drafted, r.accepted, r.texts) for r in trace.rounds]

    merged = sum(sum(each.merged for each in trace.rounds) for _, trace in found)
    print(f"  {what}: {merged} rounds came in a piece with another")
    right = [
        trace.grounds == "told" and shape(trace) == shape(finished(ask(info, prompt, settings)))
        for prompt, trace in found
    ]
    findings.check(f"{what}, divided as without", sum(right), len(right))
    findings.check("with pieces that did merge", int(merged > 0), 1)


def compare(info: ServerInfo, plain: ServerInfo) -> None:
    prompt = PROMPTS[0]
    found = list(
        blocks_against(
            lambda: ask(info, prompt, SETTINGS), lambda: ask(plain, prompt, SETTINGS), blocks=6
        )
    )
    print(f"  against the target alone: {speedup_of(found)}")


if __name__ == "__main__":
    sys.exit(bool(main()))

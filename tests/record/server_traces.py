"""Handmade answers of serving engines, whose figures can be computed by hand.

A round is ``(drafted, accepted)``; it gives the accepted tokens and one more. ``None`` is a token
outside any round. Token ids count up from 1, texts are ``" w<id>"``. The first chunk arrives after
0.1 s, each later one 0.02 s after the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specviz.record.server_run import (
    Capabilities,
    ServerBlock,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
    ServerTrace,
    TimedAnswer,
)

Spelt = tuple[int, int] | None
FIRST, STEP = 0.1, 0.02
ROUNDS: tuple[Spelt, ...] = (None, (5, 3), (5, 5), (5, 0), (5, 2))
VLLM = ServerInfo(
    address="http://127.0.0.1:8765",
    engine="vllm",
    version="0.32.0",
    model="tiny",
    gamma=5,
    capabilities=Capabilities(
        token_ids=True, rounds=True, totals=True, counters=True, speculates=True
    ),
)
PLAIN = replace(
    VLLM, engine="openai", version=None, model="someone's model", gamma=None,
    capabilities=Capabilities(),
)  # fmt: skip


def server_trace(spelt: Sequence[Spelt] = ROUNDS, **fields: Any) -> ServerTrace:
    """Return an answer of vLLM, which reports its rounds."""
    rounds = server_rounds(spelt)
    reported = [each for each in spelt if each is not None]
    values: dict[str, Any] = {
        "info": VLLM,
        "settings": ServerSettings(max_new_tokens=64),
        "prompt": "Once upon a time",
        "prompt_tokens": 4,
        "rounds": rounds,
        "grounds": "told",
        "text": "".join(text for each in rounds for text in each.texts),
        "finish": "eos",
        "created": "2026-11-24T09:30:00+00:00",
        "seconds": rounds[-1].at if rounds else FIRST,
        "totals": ServerTotals(
            rounds=len(reported),
            drafted=sum(drafted for drafted, _ in reported),
            accepted=sum(accepted for _, accepted in reported),
        ),
    }
    return ServerTrace(**(values | fields))


def server_rounds(spelt: Sequence[Spelt]) -> tuple[ServerRound, ...]:
    rounds: list[ServerRound] = []
    for index, each in enumerate(spelt):
        count = 1 if each is None else each[1] + 1
        first = 1 + sum(entry.num_tokens for entry in rounds)
        ids = tuple(range(first, first + count))
        rounds.append(
            ServerRound(
                index=index,
                texts=tuple(f" w{token}" for token in ids),
                token_ids=ids,
                num_tokens=count,
                at=round(FIRST + STEP * index, 9),
                drafted=each[0] if each else None,
                accepted=each[1] if each else None,
                logprobs=tuple(-0.25 for _ in ids),
            )
        )
    return tuple(rounds)


def undivided(trace: ServerTrace) -> ServerTrace:
    """Return the same answer with one text for all tokens of a round."""
    rounds = [
        replace(each, texts=("".join(each.texts),), logprobs=(), token_ids=())
        for each in trace.rounds
    ]
    return replace(trace, rounds=tuple(rounds))


def without_rounds(trace: ServerTrace) -> ServerTrace:
    """Return the same answer of a server that reports no rounds."""
    rounds = [
        replace(each, drafted=None, accepted=None, logprobs=(), token_ids=())
        for each in trace.rounds
    ]
    return replace(trace, info=PLAIN, rounds=tuple(rounds), grounds="none", totals=ServerTotals())


def timed(trace: ServerTrace) -> ServerTrace:
    """Return the answer with a block of answers of the same model without speculation."""
    block = ServerBlock(
        alone=(TimedAnswer(tokens=20, seconds=0.4), TimedAnswer(tokens=20, seconds=0.4)),
        speculative=(TimedAnswer(tokens=20, seconds=0.2), TimedAnswer(tokens=20, seconds=0.2)),
    )
    return replace(trace, baseline=(block,), baseline_address="http://127.0.0.1:8766")

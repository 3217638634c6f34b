"""Time an engine with speculation against the target alone, in the order A B B A.

A is an answer of the target alone, and B is an answer with speculation; both have the same prompt.
In this order, a slow drift of the machine affects A and B alike. Only decoding is timed, from the
first chunk of an answer to the last. One untimed A and one untimed B warm up the caches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from specviz.errors import ServerError
from specviz.figures.paired import PromptRepeat, Ratio, ratio_of
from specviz.record.server_run import ServerBlock, ServerTrace, TimedAnswer
from specviz.servers.asking import Answer

Ask = Callable[[], Answer]


def blocks_against(ask_speculative: Ask, ask_alone: Ask, *, blocks: int) -> Iterator[ServerBlock]:
    """Yield blocks of four timed answers: target alone, speculative twice, target alone.

    When the generator is closed, stop the answer in progress.
    """
    _timed(ask_alone)
    _timed(ask_speculative)
    for _ in range(blocks):
        first = _timed(ask_alone)
        speculative = (_timed(ask_speculative), _timed(ask_speculative))
        yield ServerBlock(alone=(first, _timed(ask_alone)), speculative=speculative)


def speedup_of(blocks: Sequence[ServerBlock]) -> Ratio | None:
    """Return the speedup on one prompt from blocks of four timed answers; None without blocks.

    The interval covers only timing noise.
    """
    logs: dict[PromptRepeat, float] = {
        (0, place): _log_ratio(block) for place, block in enumerate(blocks)
    }
    found = ratio_of(logs)
    return None if found is None else replace(found, over="timing")


def speedup_against(traces: Sequence[ServerTrace]) -> Ratio | None:
    """Return the speedup over all answers that have timed blocks, or None without such answers.

    With several prompts, the interval covers the variation over prompts. With one prompt, it covers
    timing noise.
    """
    timed = [each.baseline for each in traces if each.baseline]
    if len(timed) == 1:
        return speedup_of(timed[0])
    logs: dict[PromptRepeat, float] = {
        (item, place): _log_ratio(block)
        for item, blocks in enumerate(timed)
        for place, block in enumerate(blocks)
    }
    return ratio_of(logs)


def timed_answer(trace: ServerTrace) -> TimedAnswer:
    """Return the number of tokens after the first chunk, and the seconds to decode them."""
    rounds = trace.rounds
    tokens = sum(each.num_tokens for each in rounds[1:])
    if rounds and not all(each.num_tokens for each in rounds):
        tokens = (trace.totals.tokens or 0) - 1  # a first chunk of unknown size counts as one token
        if 0 < tokens < len(rounds) - 1:
            raise ServerError(
                f"{trace.info.address} sent {len(rounds)} chunks but counts {tokens + 1} tokens: "
                "its count does not match this answer.",
                remedy="Time an engine that counts all tokens it sends.",
            )
    seconds = rounds[-1].at - rounds[0].at if rounds else 0.0
    if tokens < 1 or seconds <= 0:
        raise ServerError(
            f"An answer of {trace.info.address} is too short to be timed, or came in one chunk.",
            remedy="Ask for more tokens, with a prompt that needs a longer answer.",
        )
    return TimedAnswer(tokens=tokens, seconds=seconds)


def _timed(ask: Ask) -> TimedAnswer:
    answer = ask()
    try:
        for _ in answer:
            pass
    finally:
        answer.stop()
    return timed_answer(answer.trace())


def _log_ratio(block: ServerBlock) -> float:
    return math.log(_pace(block.alone) / _pace(block.speculative))


def _pace(answers: Sequence[TimedAnswer]) -> float:
    """Return the seconds per token over all answers."""
    return sum(each.seconds for each in answers) / sum(each.tokens for each in answers)

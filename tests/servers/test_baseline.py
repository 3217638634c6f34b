"""Speculation against the target alone: order, timed span and ratio."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import ServerBlock, ServerSettings, TimedAnswer
from specviz.servers import ask, find_server
from specviz.servers.asking import Answer
from specviz.servers.baseline import blocks_against, speedup_of
from tests.servers.replaying import Handler, Page, replayed, served

SETTINGS = ServerSettings(max_new_tokens=9)


def paced(order: list[str], name: str, pause: float) -> dict[str, Page]:
    """Return an answer of eight tokens after the first, one per chunk."""

    def answer(handler: Handler) -> None:
        order.append(name)
        handler.begin_stream()
        for place in range(9):
            ended = "length" if place == 8 else None
            handler.event(
                {"choices": [{"token_ids": [place], "text": "x", "finish_reason": ended}]}
            )
            handler.served.over.wait(pause)

    return {
        "/v1/models": Page(body=b'{"data":[{"id":"t"}]}'),
        "/v1/completions": Page(behave=answer),
    }


def asker(address: str) -> Callable[[], Answer]:
    info = find_server(address)
    return lambda: ask(info, "Once", SETTINGS)


def test_order_is_a_b_b_a_after_one_warm_up_of_each() -> None:
    order = list[str]()
    slow, fast = paced(order, "alone", 0.04), paced(order, "speculative", 0.005)
    began = time.monotonic()
    with served(slow) as alone, served(fast) as speculative:
        blocks = list(blocks_against(asker(speculative.address), asker(alone.address), blocks=2))
    took = time.monotonic() - began
    block = ["alone", "speculative", "speculative", "alone"]
    assert order == ["alone", "speculative", *block, *block]
    assert all(each.tokens == 8 for found in blocks for each in (*found.alone, *found.speculative))
    seconds = [each.seconds for found in blocks for each in found.alone]
    assert max(seconds) > 0.28  # eight pauses, which a busy machine makes longer
    assert sum(seconds) < took
    found = speedup_of(blocks)
    assert found is not None
    assert found.value > 1.5
    assert (found.over, found.count) == ("timing", 2)


def test_one_ratio_per_block() -> None:
    def block(alone: float, speculative: float) -> ServerBlock:
        one, other = (TimedAnswer(tokens=10, seconds=each) for each in (alone, speculative))
        return ServerBlock(alone=(one, one), speculative=(other, other))

    assert speedup_of([]) is None
    single = speedup_of([block(2.0, 1.0)])
    assert single is not None
    assert (single.value, single.low, single.high) == (2.0, None, None)
    found = speedup_of([block(2.0, 1.0), block(8.0, 1.0)])
    assert found is not None
    assert found.value == pytest.approx(4.0)
    assert found.low is not None
    assert found.low < 1


def test_cannot_time_an_answer_in_one_chunk() -> None:
    with replayed("vllm", "short") as server:
        body = server.pages["/v1/completions"].body.split(b"\n\n")
        server.pages["/v1/completions"].body = b"\n\n".join([body[0], b"data: [DONE]", b""])
        one = asker(server.address)
        with pytest.raises(ServerError, match="too short to be timed"):
            next(blocks_against(one, one, blocks=1))

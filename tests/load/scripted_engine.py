"""A scripted engine on real sockets, whose steps slow down by a known law with requests in flight.

It answers like vLLM, with token ids, and counts what it sends on its /metrics page. A ``Fault``
makes it misbehave.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from specviz.record.server_run import Capabilities, ServerInfo
from tests.servers.replaying import Handler, Page, Served, served

GAMMA = 3
Fault = Literal["", "429", "stall", "closes", "restarts", "strangers", "quotes", "in one chunk"]
Law = Callable[[int], float]  # seconds of a step with this many requests in flight


@dataclass
class ScriptedEngine:
    """``per_step``: tokens of each step; above 1, all but one are accepted candidates."""

    step: Law
    per_step: int = 1
    fault: Fault = ""
    failing: Callable[[int], bool] = lambda number: True  # which requests the fault meets
    in_flight: int = 0
    most: int = 0
    asked: int = 0
    rounds: int = 0
    generated: int = 0
    prompts: list[str] = field(default_factory=list[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, handler: Handler) -> None:
        body: Any = handler.served.bodies[-1]
        with self.lock:
            number, self.asked = self.asked, self.asked + 1
            self.prompts.append(body["prompt"])
            fault = self.fault if self.failing(number) else ""
        if fault == "429":
            handler.send(Page(status=429, body=b'{"error": {"message": "too many requests"}}'))
            return
        if fault == "quotes":
            handler.send(Page(status=400, body=json.dumps({"error": body["prompt"]}).encode()))
            return
        with self.lock:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        try:
            self._stream(handler, body["max_tokens"], fault)
        finally:
            with self.lock:
                self.in_flight -= 1

    def _stream(self, handler: Handler, length: int, fault: Fault) -> None:
        handler.begin_stream()
        sent = 0
        while sent < length:
            time.sleep(self.step(self.in_flight))
            tokens = min(self.per_step, length - sent)
            if fault == "stall" and sent:
                handler.served.over.wait(30)
                return
            sent += tokens
            self._count(tokens, fault)
            choice = {"index": 0, "text": "a" * tokens, "token_ids": [1] * tokens}
            handler.event({"choices": [{**choice, "finish_reason": None}]})
            if fault == "closes" and sent >= length / 2:
                return
        usage = {"prompt_tokens": 4, "completion_tokens": sent}
        handler.event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        handler.event({"choices": [], "usage": usage})
        handler.wfile.write(b"data: [DONE]\n\n")

    def _count(self, tokens: int, fault: Fault) -> None:
        with self.lock:
            if fault == "restarts":
                self.rounds = self.generated = 0
            self.rounds += 1
            self.generated += tokens + (fault == "strangers")

    def metrics(self, handler: Handler) -> None:
        with self.lock:
            accepted = self.rounds * (self.per_step - 1)
            values = {
                "generation_tokens_total": self.generated,
                "num_requests_running": self.in_flight,
                "num_requests_waiting": 0,
                "num_preemptions_total": 0,
                "kv_cache_usage_perc": 0.25,
            }
            if self.per_step > 1:
                values |= {
                    "spec_decode_num_drafts_total": self.rounds,
                    "spec_decode_num_draft_tokens_total": GAMMA * self.rounds,
                    "spec_decode_num_accepted_tokens_total": accepted,
                }
                values |= {
                    f'spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}}': (
                        self.rounds * (place < self.per_step - 1)
                    )
                    for place in range(GAMMA)
                }
        text = "\n".join(f"vllm:{name} {value}" for name, value in values.items())
        handler.send(Page(body=text.encode(), kind="text/plain"))


@contextmanager
def running(engine: ScriptedEngine, models: tuple[str, ...] = ("tiny",)) -> Iterator[Served]:
    listed = {"data": [{"id": each, "owned_by": "vllm"} for each in models]}
    pages = {
        "/v1/models": Page(body=json.dumps(listed).encode()),
        "/version": Page(body=b'{"version": "0.32.0"}'),
        "/metrics": Page(behave=engine.metrics),
        "/v1/completions": Page(behave=engine.answer),
    }
    with served(pages) as server:
        yield server


@contextmanager
def running_two(seconds: float) -> Iterator[tuple[Served, Served]]:
    """Run an engine that speculates, and one that does not, whose step takes ``seconds``.

    The first is 3 times as fast for one user, and slower for more than three users.
    """
    fast = ScriptedEngine(step=lambda users: seconds * users, per_step=3)
    alone = ScriptedEngine(step=lambda _: seconds)
    with running(fast) as first, running(alone) as second:
        yield first, second


def info_at(address: str, *, speculates: bool = True) -> ServerInfo:
    return ServerInfo(
        address=address, engine="vllm", version="0.32.0", model="tiny",
        gamma=GAMMA if speculates else None,
        capabilities=Capabilities(
            token_ids=True, rounds=speculates, counters=True, speculates=speculates
        ),
    )  # fmt: skip

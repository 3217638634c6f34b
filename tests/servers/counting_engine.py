"""An engine on this machine with vLLM's pages and counters, which decodes with our own loop.

Its answers and their acceptance are real. ``Faults`` make it read its head in another way, always
or only under a condition, or write the text of another target.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.sampling import Sampler
from specviz.engine.heads.following import ReadText, rounds_along
from specviz.engine.heads.head import Head
from specviz.engine.model.chat import encode_prompt
from specviz.record.run_config import RunConfig
from specviz.values import Value
from tests.servers.replaying import Handler, Page, Served, events_page, served

GAMMA = 3
AT_ONCE = 4  # requests that are concurrent, of at least 8 prompts
_ASKED_AT_ONCE = 3  # the third time that a prompt is asked, others are asked, too
_ALONE_FOR = 10.0  # seconds


class Spoken(Value, eq=False):
    """An answer: its tokens, and the accepted candidates of each round."""

    prompt_tokens: int
    token_ids: tuple[int, ...]
    accepted: tuple[int, ...]


class Decoder:
    """Answers prompts with our loop, and keeps its answers for the next engine."""

    def __init__(self, pair: Pair) -> None:
        self._pair, self._lock = pair, threading.Lock()
        self._kept: dict[tuple[Any, ...], Spoken] = {}

    def answer(
        self, prompt: str, length: int, temperature: float, head: Head, target: Pair | None
    ) -> Spoken:
        key = prompt, length, temperature, head.settings, target
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._decode(prompt, length, temperature, head, target)
            return self._kept[key]

    def _decode(
        self, prompt: str, length: int, temperature: float, head: Head, target: Pair | None
    ) -> Spoken:
        pair = replace(target or self._pair, head=head, last_read=None)
        ids = encode_prompt(pair, prompt, chat=False)
        config = RunConfig(temperature=temperature, max_new_tokens=1, record=False, ignore_eos=True)
        if temperature:
            return self._sampled(pair, ids, replace(config, max_new_tokens=length + GAMMA))
        first = next(decode_plainly(pair, ids, config))
        config = replace(config, max_new_tokens=length + GAMMA, gamma=GAMMA, drafter="eagle")
        emitted, accepted = [first], list[int]()
        for each in speculate(pair, [*ids, first], config):
            emitted += each.emitted
            accepted.append(each.num_accepted)
            if len(emitted) >= length:
                break
        return Spoken(
            prompt_tokens=len(ids), token_ids=tuple(emitted[:length]), accepted=tuple(accepted)
        )

    def _sampled(self, pair: Pair, ids: list[int], config: RunConfig) -> Spoken:
        """Sample a text, and draft greedily along it; a candidate counts if it is the text's."""
        assert pair.head is not None
        said, length = list(decode_plainly(pair, ids, config)), config.max_new_tokens - GAMMA
        text = ReadText(pair, ids, said, Sampler(config), pair.head.states.places)
        rounds = rounds_along(pair.head, text, GAMMA, (len(ids), len(ids) + length))
        return Spoken(
            prompt_tokens=len(ids),
            token_ids=tuple(said[:length]),
            accepted=tuple(accepted for _, accepted in rounds),
        )


class Faults(Value, eq=False):
    """The heads that draft: always, and under single conditions."""

    head: Head
    repeated: Head | None = None
    concurrent: Head | None = None
    sampled: Head | None = None
    target: Pair | None = None  # that writes the text instead
    strangers: int = 0  # tokens of other users, counted with every answer
    restarts: bool = False  # after its first answer
    elsewhere: int = 0  # accepted candidates of every answer that no position counts
    other_drafts: int = 0  # drafted candidates of other users, counted with every answer
    positions: bool = True  # whether accepted is counted by position
    reports: bool = True  # whether an answer reports its steps
    fails: bool = False


@dataclass
class CountingEngine:
    decoder: Decoder
    faults: Faults
    drafts: int = 0
    accepted_at: list[int] = field(default_factory=lambda: [0] * GAMMA)
    generated: int = 0
    asked: Counter[tuple[str, float]] = field(default_factory=Counter[tuple[str, float]])
    lock: threading.Lock = field(default_factory=threading.Lock)
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(AT_ONCE))

    def answer(self, handler: Handler) -> None:
        body: Any = handler.served.bodies[-1]
        if self.faults.fails:
            handler.send(Page(status=500, body=b'{"error": "out of blocks"}'))
            return
        said = self._decoded(body)
        handler.send(events_page(_events(said, reports=self.faults.reports)))

    def _decoded(self, body: Any) -> Spoken:
        faults, prompt = self.faults, body["prompt"]
        temperature = body["temperature"]
        with self.lock:
            self.asked[prompt, temperature] += 1
            times = self.asked[prompt, 0.0]
        head = (times > 1 and faults.repeated) or faults.head
        if temperature:
            head = faults.sampled or faults.head
        elif times == _ASKED_AT_ONCE:
            self.together.wait(_ALONE_FOR)
            head = faults.concurrent or head
        said = self.decoder.answer(prompt, body["max_tokens"], temperature, head, faults.target)
        with self.lock:
            if faults.restarts and self.asked.total() == 2:
                self.drafts, self.generated, self.accepted_at = 0, -1, [0] * GAMMA
            self.drafts += len(said.accepted)
            self.generated += len(said.token_ids) + faults.strangers
            for place in range(GAMMA):
                self.accepted_at[place] += sum(each > place for each in said.accepted)
        return said

    def metrics(self, handler: Handler) -> None:
        with self.lock:
            values = {
                "spec_decode_num_drafts": self.drafts,
                "spec_decode_num_draft_tokens": self.drafts * GAMMA
                + self.faults.other_drafts * self.asked.total(),
                "spec_decode_num_accepted_tokens": sum(self.accepted_at)
                + self.faults.elsewhere * self.asked.total(),
                "generation_tokens": self.generated,
            }
            lines = [f"vllm:{name}_total {value}" for name, value in values.items()]
            if self.faults.positions:
                name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                lines += [
                    f'{name}{{position="{place}"}} {value}'
                    for place, value in enumerate(self.accepted_at)
                ]
        handler.send(Page(body="\n".join(lines).encode(), kind="text/plain"))


@contextmanager
def counting(decoder: Decoder, faults: Faults) -> Iterator[tuple[Served, CountingEngine]]:
    engine = CountingEngine(decoder, faults)
    pages = {
        "/v1/models": Page(body=b'{"data": [{"id": "tiny", "owned_by": "vllm"}]}'),
        "/version": Page(body=b'{"version": "0.32.0"}'),
        "/metrics": Page(behave=engine.metrics),
        "/v1/completions": Page(behave=engine.answer),
    }
    with served(pages) as server:
        yield server, engine


def _events(said: Spoken, *, reports: bool) -> list[Any]:
    ids, steps = list(said.token_ids), list(said.accepted)
    choice = {"index": 0, "text": "", "token_ids": ids, "finish_reason": "length"}
    usage = {"prompt_tokens": said.prompt_tokens, "completion_tokens": len(ids)}
    report = {
        "num_spec_steps": len(steps),
        "num_draft_tokens": GAMMA * len(steps),
        "num_accepted_draft_tokens": sum(steps),
        "num_spec_tokens": GAMMA,
        "per_step_accepted": steps,
        "per_step_drafted": [GAMMA] * len(steps),
    }
    metrics = {"metrics": {"speculative_decoding": report}} if reports else {}
    return [{"choices": [choice]}, {"choices": [], "usage": usage, **metrics}]

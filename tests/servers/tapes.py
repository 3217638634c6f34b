"""Recorded exchanges with an engine, replayed by request.

``python -m tests.servers.tapes`` records them again, with real engines.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from specviz.comparison.plan import Lane
from specviz.measure.run_makers import InProcessMaker
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig
from specviz.servers.endpoint_maker import EndpointMaker
from specviz.tune.given_costs import given_costs
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from tests.servers import real_engines
from tests.servers.replaying import ANSWERS, Handler, Page, Served, answering

TEXT = "Once upon a time there was a little girl named Lily. She had a red ball."
FEW = "A big dog"
DRAFT = str(real_engines.PAIR / "draft")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What to score: a given text, or the server's own after ``prompt``."""

    name: str
    temperature: float
    top_k: int = 0
    text: str | None = None
    prompt: str = ""
    served_draft: bool = False

    def question(self, target: str | None, draft: str) -> Question:
        """Return the settings of our own pair if there is no target."""
        spec = PairSpec(threads=1) if target is None else PairSpec(target=target, draft=draft)
        config = RunConfig(
            temperature=self.temperature, top_k=self.top_k, max_new_tokens=24, ignore_eos=True
        )
        return Question(
            lanes=(Lane(spec=spec, config=config),), items=(SuiteItem(prompt=self.prompt),),
            temperatures=(self.temperature,), gammas=(1, 2, 4, 6), text=self.text,
        )  # fmt: skip


CASES = (
    Case(name="unfiltered", temperature=1.0, text=TEXT, served_draft=True),
    Case(name="top-k", temperature=0.6, top_k=20, text=TEXT),
    Case(name="whole", temperature=0.7, text=FEW),
    Case(name="greedy-words", temperature=0.0, prompt="Once upon a time"),
    Case(name="drawn-words", temperature=1.0, prompt="Once upon a time"),
)


def worked(question: Question, *, endpoints: bool) -> TuneJob:
    here = InProcessMaker(lambda _: None)
    job = TuneJob(question, EndpointMaker(here) if endpoints else here, given=given_costs(0.1, 1.2))
    job.carry_out()
    return job


@dataclass
class Tape:
    """Exchanges by method, path and body: status, content type and text of the answer."""

    found: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    def save(self, name: str) -> None:
        data = gzip.compress(json.dumps(self.found, ensure_ascii=False).encode(), mtime=0)
        place(name).write_bytes(data)


def place(name: str) -> Path:
    return ANSWERS / "scoring" / f"{name}.json.gz"


def key_of(method: str, path: str, body: object) -> str:
    return f"{method} {path} {json.dumps(body, sort_keys=True)}"


@contextmanager
def replayed_tape(name: str, alter: Callable[[str], str] = str) -> Iterator[Served]:
    """Replay a tape. ``alter`` changes the text of every answer."""
    tape: Mapping[str, tuple[int, str, str]] = json.loads(gzip.decompress(place(name).read_bytes()))

    def answer(handler: Handler) -> None:
        kept = tape.get(key_of(*_asked(handler)))
        status, kind, text = kept or (404, "application/json", "{}")
        handler.send(Page(body=alter(text).encode(), status=status, kind=kind))

    with answering(answer) as server:
        yield server


@contextmanager
def recorded_tape(address: str, tape: Tape) -> Iterator[Served]:
    """Forward every request to a real engine, and record it."""

    def answer(handler: Handler) -> None:
        method, path, body = _asked(handler)
        with httpx2.Client(base_url=address, timeout=120, trust_env=False) as client:
            found = client.request(method, path, json=body)
        kind = found.headers.get("content-type", "")
        text = found.text if path != "/metrics" else _few_metrics(found.text)
        tape.found[key_of(method, path, body)] = found.status_code, kind, text
        handler.send(Page(body=text.encode(), status=found.status_code, kind=kind))

    with answering(answer) as server:
        yield server


def _asked(handler: Handler) -> tuple[str, str, object]:
    return handler.command, handler.path, handler.body


def _few_metrics(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "spec_decode" in line) + "\n"


def main() -> None:
    if reason := real_engines.missing("vllm"):
        print(reason)
        sys.exit(1)
    place("").parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        target = stack.enter_context(real_engines.vllm())
        draft = stack.enter_context(real_engines.vllm(speculative=False, model="draft"))
        for case in CASES:
            of_target, of_draft = Tape(), Tape()
            with recorded_tape(target, of_target) as one, recorded_tape(draft, of_draft) as other:
                where = other.address if case.served_draft else DRAFT
                job = worked(case.question(one.address, where), endpoints=True)
            assert job.error is None, job.error
            of_target.save(case.name)
            if case.served_draft:
                of_draft.save(f"{case.name}-draft")
            print(case.name, job.answer.doubts)


if __name__ == "__main__":
    main()

"""A maker of runs with given speeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from specviz.comparison.plan import Lane
from specviz.measure.run_makers import MadeRun, RunOrder, StoppedError, Study
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import ModelCheck, PairCheck, PairSpec, Presence
from specviz.record.trace import RunConfig
from specviz.tune.answer import Answer, Candidate
from specviz.tune.question import Question
from specviz.tune.surface import Cell
from tests.traces import Passes, make_environment, make_model, make_trace, timed
from tests.tune.scored import costs, text_of

STEP = 0.01  # seconds per token of the target alone
ROUNDS = ("aa", "ar", "rd")  # of six tokens


class FakeMaker:
    """``speed`` returns the speedup of an order's run; None for a run without a whole round.

    ``orders`` lists the requested runs without warm-ups.
    """

    doing = ""

    def __init__(self, speed: Callable[[RunOrder], float | None]) -> None:
        self.orders: list[RunOrder] = []
        self.warm_ups = 0
        self.stopped = False
        self.before_run: Callable[[], None] = lambda: None
        self._speed = speed

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        model = ModelCheck(name="m", family="llama", parameters=1, bytes_to_fetch=0)
        weights = make_model().weights_sha256
        present = Presence(
            target_sha256=weights, draft_sha256=weights, environment=make_environment()
        )
        return PairCheck(
            target=model, draft=model, vocabulary=10, memory_needed=1, memory_free=10**9,
            present=present,
        )  # fmt: skip

    def make(self, order: RunOrder) -> MadeRun:
        if order.warm_up:
            self.warm_ups += 1
        else:
            self.before_run()
            self.orders.append(order)
        if self.stopped:
            raise StoppedError
        speed = self._speed(order)
        if speed is None:
            trace = make_trace([], config=order.config)
            return MadeRun(trace=timed(trace, Passes(target=[], speculative=[])), memory_bytes=1)
        trace = make_trace(ROUNDS, config=order.config)
        tokens = len(trace.token_ids)
        seconds = STEP * tokens / len(ROUNDS) / speed
        passes = Passes(target=[[STEP] * tokens] * 2, speculative=[[seconds] * len(ROUNDS)] * 2)
        return MadeRun(trace=timed(trace, passes), memory_bytes=1)

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        raise AssertionError(study)

    def stop(self) -> None:
        self.stopped = True


def candidate_of(label: str, *, gammas: Sequence[int] = (1, 2, 4), **config: Any) -> Candidate:
    """Return a scored candidate with texts and costs."""
    settings = replace(RunConfig(), **config)
    texts = tuple(
        text_of([0.9 - 0.01 * place] * 40, temperature=temperature)
        for temperature in (0.0, 0.7)
        for place in range(6)
    )
    return Candidate(
        label=label,
        lane=Lane(spec=PairSpec(name=label), config=settings),
        texts=texts,
        costs={0.0: costs(), 0.7: costs()},
        gammas=tuple(gammas),
    )


def best_of(candidate: Candidate, temperature: float = 0.7) -> tuple[Candidate, Cell]:
    cell = candidate.surface.best_at(temperature)
    assert cell is not None
    return candidate, cell


def answer_of(question: Question, *candidates: Candidate, complete: bool = True) -> Answer:
    return Answer(question=question, candidates=candidates, complete=complete)

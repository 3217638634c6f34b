"""Answers of Tune as JSON, for the example that the page shows before its first answer."""

from __future__ import annotations

from dataclasses import dataclass, fields

from specviz.comparison.plan import Lane
from specviz.record.scores import ScoredText
from specviz.record.trace import PairInfo, StepCosts
from specviz.store.dataclass_json import from_json
from specviz.store.files import to_json
from specviz.tune.answer import Answer, Candidate
from specviz.tune.methods import ShortRun
from specviz.tune.question import Question


@dataclass(frozen=True, kw_only=True)
class _RecordedCandidate:
    """A candidate with step costs as (temperature, table) pairs, because JSON keys are text."""

    label: str
    lane: Lane
    texts: tuple[ScoredText, ...]
    costs: tuple[tuple[float, StepCosts], ...]
    gammas: tuple[int, ...]
    runs: tuple[ShortRun, ...]
    info: PairInfo | None
    memory_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class _RecordedAnswer:
    question: Question
    candidates: tuple[_RecordedCandidate, ...]


def answer_to_record(answer: Answer) -> str:
    candidates = [_values(each) | {"costs": [*each.costs.items()]} for each in answer.candidates]
    return to_json({"question": answer.question, "candidates": candidates})


def _values(candidate: Candidate) -> dict[str, object]:
    return {each.name: getattr(candidate, each.name) for each in fields(_RecordedCandidate)}


def answer_from_record(text: str) -> Answer:
    """Return the recorded answer, marked as complete."""
    recorded = from_json(text, _RecordedAnswer)
    candidates = tuple(
        Candidate(
            label=each.label,
            lane=each.lane,
            texts=each.texts,
            costs=dict(each.costs),
            gammas=each.gammas,
            runs=each.runs,
            info=each.info,
            memory_bytes=each.memory_bytes,
        )
        for each in recorded.candidates
    )
    return Answer(question=recorded.question, candidates=candidates, complete=True)

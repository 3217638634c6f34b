"""Scored texts made by hand, and step costs given by formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specviz.record.scores import CopiedRounds, SamplingParams, ScoredText, TextScores
from specviz.record.trace import Prompt, StepCosts
from tests.traces import make_prompt

CONTEXTS = (0, 1000)
TARGET, ROW, DRAFT, LATER, SECOND = 10.0, 0.5, 1.0, 0.8, 0.3


def longer(context: float) -> float:
    """Return the factor by which a context slows every step down."""
    return 1.0 + context / 500.0


def target_step(context: float) -> float:
    return TARGET * longer(context)


def verification(context: float, rows: int) -> float:
    return (TARGET + ROW * (rows - 1)) * longer(context)


def draft_phase(context: float, gamma: int, bonus_share: float) -> float:
    """The first step reads a second token after a bonus; later steps cost less."""
    return (DRAFT + SECOND * bonus_share + LATER * (gamma - 1)) * longer(context)


def costs(rows: int = 17, **changes: Any) -> StepCosts:
    ends = [longer(each) for each in CONTEXTS]
    table = StepCosts(
        contexts=CONTEXTS,
        draft=(tuple(DRAFT * e for e in ends), tuple((DRAFT + SECOND) * e for e in ends)),
        target=tuple(tuple((TARGET + ROW * more) * e for e in ends) for more in range(rows)),
        draft_next=tuple(LATER * e for e in ends),
    )
    return replace(table, **changes)


def prompt_of(length: int, kind: str | None = "story") -> Prompt:
    ids = tuple(range(length))
    return replace(make_prompt(), token_ids=ids, token_texts=tuple(map(str, ids)), kind=kind)


def scores_of(odds: Sequence[float], **changes: Any) -> TextScores:
    many = len(odds)
    scores = TextScores(
        odds=tuple(odds),
        overlaps=tuple(odds),
        text_probs=(0.5,) * many,
        draft_entropies=(1.0,) * many,
        target_entropies=(1.0,) * many,
        matches=tuple(each >= 0.5 for each in odds),
        agrees=tuple(each >= 0.5 for each in odds),
    )
    return replace(scores, **changes)


def text_of(
    odds: Sequence[float], *, prompt: int = 4, temperature: float = 0.7, **changes: Any
) -> ScoredText:
    text = ScoredText(
        prompt=prompt_of(prompt),
        sampling=SamplingParams(temperature=temperature),
        token_ids=tuple(range(len(odds))),
        token_texts=tuple(f" w{place}" for place in range(len(odds))),
        ends=False,
        own=True,
        scores=scores_of(odds),
    )
    return replace(text, **changes)


def copied_text(
    length: int, rounds: Sequence[tuple[int, int, int]], gamma: int, **changes: Any
) -> ScoredText:
    """Return a text of prompt lookup, from each round's start, drafted and emitted counts."""
    starts, drafted, emitted = zip(*rounds, strict=True) if rounds else ((), (), ())
    found = CopiedRounds(gamma=gamma, starts=starts, drafted=drafted, emitted=emitted)
    return text_of([1.0] * length, scores=None, copied=(found,), **changes)

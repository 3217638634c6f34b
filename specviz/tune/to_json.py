"""Convert an answer and scored texts to JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from specviz.figures.token_kinds import by_token_kind
from specviz.record.scores import ScoredText
from specviz.tune.advice import advice, basis_text, reason
from specviz.tune.answer import Answer, Candidate
from specviz.tune.engine_finding import settings_for
from specviz.tune.measuring import MeasuredCell
from specviz.tune.methods import OWN_SETTINGS
from specviz.tune.surface import Cell

KIND = "specviz.tune"
SCHEMA = 1


def answer_to_json(answer: Answer, measured: Sequence[MeasuredCell] = ()) -> dict[str, Any]:
    """Convert an answer to JSON values.

    ``surface`` has the cells of the best candidate. If no candidate is ranked, it has the cells of
    the first candidate.
    """
    first = answer.best[0] if answer.best else None
    shown = first or next(iter(answer.candidates), None)
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "temperature": answer.temperature,
        "surface": _cells(shown) if shown else [],
        "best": _best(answer),
        "advice": advice(answer),
        "doubts": answer.doubts,
        "ranking": [_ranked(each, cell) for each, cell in answer.ranked],
        "candidates": [
            {
                "label": each.label,
                "surface": _cells(each),
                "texts": len(each.texts),
                "runs": len(each.runs),
            }
            for each in answer.candidates
        ],
        "not_ranked": [each.label for each in answer.without_speed],
        "engines": _engines(answer),
        "measured": [dataclasses.asdict(each) | {"error": each.error} for each in measured],
        "complete": answer.complete,
    }


def _best(answer: Answer) -> dict[str, Any] | None:
    if answer.best is None:
        return None
    candidate, cell = answer.best
    return {"label": candidate.label, **_cell(cell)}


def _engines(answer: Answer) -> list[dict[str, Any]]:
    """Return other engines' settings for the best candidate that these engines support."""
    if answer.best_plain is None:
        return []
    return [dataclasses.asdict(each) for each in settings_for(*answer.best_plain)]


def _ranked(candidate: Candidate, cell: Cell) -> dict[str, Any]:
    return {
        "label": candidate.label,
        **_cell(cell),
        "alpha": candidate.alpha(cell.temperature),
        "memory_bytes": candidate.memory_bytes,
        "reason": reason(candidate, cell),
        "how": basis_text(candidate, cell),
        "settings": _settings(candidate, cell),
    }


def _settings(candidate: Candidate, cell: Cell) -> dict[str, Any]:
    """Return the settings that may differ between candidates."""
    config = candidate.config
    own = {name: getattr(config, name) for name in OWN_SETTINGS}
    return {"gamma": cell.gamma, **own}


def _cells(candidate: Candidate) -> list[dict[str, Any]]:
    return [_cell(each) for each in candidate.surface.cells]


def _cell(cell: Cell) -> dict[str, Any]:
    return dataclasses.asdict(cell)


def scored_to_json(text: ScoredText) -> dict[str, Any]:
    """Convert a scored text to JSON values: every token, and acceptance by the kind of token."""
    scores = text.scores
    assert scores is not None
    count = len(text.token_ids)
    rows = zip(
        text.token_ids, text.token_texts, scores.odds, _known(scores.overlaps, count),
        scores.text_probs, _known(scores.draft_entropies, count),
        _known(scores.target_entropies, count), scores.matches, scores.agrees,
        strict=True,
    )  # fmt: skip
    names = (
        "token_id", "text", "odds", "overlap", "target_prob", "draft_entropy", "target_entropy",
        "matches", "agrees",
    )  # fmt: skip
    return {
        "prompt": text.prompt.text,
        "kind": text.prompt.kind,
        "law": dataclasses.asdict(text.sampling),
        "own": text.own,
        "doubt": text.doubt,
        "ends": text.ends,
        "impossible_at": scores.impossible_at,
        "odds": fmean(scores.odds),
        "overlap": fmean(scores.overlaps) if scores.overlaps else None,
        "overlap_bounds": [fmean(ends) for ends in zip(*scores.overlap_bounds, strict=True)]
        or None,
        "greedy_agreement": fmean(scores.agrees),
        "token_kinds": [
            dataclasses.asdict(each) for each in by_token_kind(text.token_texts, scores.odds)
        ],
        "tokens": [dict(zip(names, row, strict=True)) for row in rows],
    }


def _known(values: Sequence[float], count: int) -> Sequence[float | None]:
    """Return the values; if a server does not report them, return None for each token."""
    return values or [None] * count

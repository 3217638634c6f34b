"""Settings for other engines, from a candidate's best cell (γ and temperature)."""

from __future__ import annotations

from dataclasses import replace

from specviz.tune.answer import Candidate
from specviz.tune.engine_settings import engine_settings
from specviz.tune.findings import AcceptanceRule, EngineSettings, Finding
from specviz.tune.surface import Cell


def settings_for(candidate: Candidate, cell: Cell) -> list[EngineSettings]:
    """Return each engine's settings, with the γ that is best for its acceptance rule."""
    matching = candidate.matching.best_at(cell.temperature) or cell
    own = engine_settings(finding_of(candidate, cell))
    others = engine_settings(finding_of(candidate, _lossless_cell(candidate, matching)))
    return [_merged(first, other) for first, other in zip(own, others, strict=True)]


def _lossless_cell(candidate: Candidate, matching: Cell) -> Cell:
    """Return the candidate's cell at the γ and temperature of ``matching``.

    ``matching`` assumes that the draft always proposes its likeliest token. The returned cell
    applies to the candidate's own settings. If this cell is unknown, return ``matching``.
    """
    return candidate.surface.cell(matching.gamma, matching.temperature) or matching


def _merged(own: EngineSettings, other: EngineSettings) -> EngineSettings:
    if not any(each.rule == "match" for each in other.snippets):
        return own
    drawn = {each.label: each for each in own.snippets if each.rule == "lossless"}
    return replace(other, snippets=tuple(drawn.get(each.label, each) for each in other.snippets))


def finding_of(candidate: Candidate, cell: Cell) -> Finding:
    """Return models, settings and acceptance rates at the cell's γ, for ``engine_settings``."""
    spec = candidate.lane.spec
    config, method = candidate.lane.config, candidate.lane.config.draft_method
    rates: dict[AcceptanceRule, tuple[float, ...]] = {}
    if method.needs_draft:
        rates["lossless"] = candidate.cumulative(cell)
        rates["match"] = candidate.cumulative(cell, matching=True)
    prompt = candidate.texts[0].prompt
    return Finding(
        target=spec.target_place,
        draft=spec.draft_place if method.needs_draft else None,
        drafter=config.drafter,
        prompt=prompt.text or "".join(prompt.token_texts),
        gamma=cell.gamma,
        temperature=cell.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        chat=config.chat,
        before=prompt.before,
        tau=cell.tau,
        cumulative={rule: each for rule, each in rates.items() if each},
    )

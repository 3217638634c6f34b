"""What was found, as other engines need it: with the γ that is best by each one's own rule."""

from __future__ import annotations

from specviz.tune.answer import Candidate
from specviz.tune.engine_settings import (
    AcceptanceRule,
    EngineSettings,
    Finding,
    engine_settings,
)
from specviz.tune.surface import Cell


def settings_for(candidate: Candidate, cell: Cell) -> list[EngineSettings]:
    """Each engine's with the γ that is best by its own rule."""
    matching = candidate.matching.best_at(cell.temperature) or cell
    own = engine_settings(finding_of(candidate, cell))
    others = engine_settings(finding_of(candidate, matching))
    return [
        other if any(each.rule == "match" for each in other.snippets) else first
        for first, other in zip(own, others, strict=True)
    ]


def finding_of(candidate: Candidate, cell: Cell) -> Finding:
    """Under both rules at the cell's γ; names as the pair was asked for."""
    spec = candidate.lane.spec
    target = spec.target_place
    draft = spec.draft or (target.removesuffix("target") + "draft" if spec.embedded else None)
    config, method = candidate.lane.config, candidate.lane.config.draft_method
    rates: dict[AcceptanceRule, tuple[float, ...]] = {}
    if method.needs_draft:
        rates["lossless"] = candidate.cumulative(cell)
        rates["match"] = candidate.cumulative(cell, matching=True)
    return Finding(
        target=target,
        draft=draft if method.needs_draft else None,
        drafter=config.drafter,
        gamma=cell.gamma,
        temperature=cell.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        tau=cell.tau,
        cumulative={rule: each for rule, each in rates.items() if each},
    )

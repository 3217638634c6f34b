"""The forecast of a run for every gamma one may choose, from a profile that is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.measure.forecast import forecast, kept_profile
from specviz.record.throughput import Outlook
from specviz.record.trace import Forecast, Trace

if TYPE_CHECKING:
    from specviz.engine import Pair

GAMMAS = tuple(range(1, 17))


def can_foretell(record: Trace) -> bool:
    """Whether a profile would give this run an outlook."""
    config, draft = record.config, record.pair.draft
    known_kind = record.prompt.kind is not None
    return known_kind and draft is not None and config.draft_method.needs_draft and config.lossless


def kept_outlook(pair: Pair, record: Trace) -> Outlook | None:
    """None where no profile is kept, or its texts are too short to go by."""
    made = _forecasts(pair, record)
    if not made:
        return None
    return Outlook(
        gammas=tuple(made),
        speedups=tuple(each.speedup for each in made.values()),
        taus=tuple(each.tau for each in made.values()),
        kind=made[1].kind,
        num_texts=made[1].num_texts,
    )


def _forecasts(pair: Pair, record: Trace) -> dict[int, Forecast]:
    config, prompt, costs = record.config, record.prompt, record.step_costs
    profile = kept_profile(pair, config, prompt.kind) if prompt.kind else None
    length = len(prompt.token_ids)
    made = {
        gamma: forecast(profile, costs, replace(config, gamma=gamma), prompt.text, length)
        for gamma in GAMMAS
    }
    return {gamma: each for gamma, each in made.items() if each is not None}

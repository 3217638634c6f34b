"""The speedup forecast from step costs and from acceptance on other texts of the same kind.

A profile holds the odds along texts that the target wrote for other prompts. The expected rounds
along those texts are worked out exactly for any gamma, without assuming that all odds are equal.
No forecast uses the run that it is for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.record.prompts import read_presets
from specviz.record.throughput import GAMMAS, Outlook
from specviz.record.trace import Forecast, RunConfig, StepCosts, Trace
from specviz.store import load_value, save_value
from specviz.theory.speed import rounds_along

if TYPE_CHECKING:
    from specviz.engine import Pair

_KIND = "acceptance"
_TEXT_LENGTH = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOdds:
    """One text that the target wrote: its prompt, and the odds at each token."""

    prompt: str
    odds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Acceptance of a pair on one kind of text, under one sampling."""

    kind: str
    texts: tuple[TextOdds, ...]


def profile_key(pair: Pair, config: RunConfig, kind: str) -> str:
    draft = pair.info.draft.weights_sha256 if pair.info.draft else "none"
    sampling = f"temperature {config.temperature:g} top-k {config.top_k} top-p {config.top_p:g}"
    words = f"{kind} in chat" if config.chat else kind
    words += " beyond its end" if config.ignore_eos else ""
    return f"target {pair.info.target.weights_sha256} draft {draft}; {sampling}; {words}"


def stored_profile(pair: Pair, config: RunConfig, kind: str) -> Profile | None:
    return load_value(_KIND, profile_key(pair, config, kind), Profile)


def measure_profile(pair: Pair, config: RunConfig, kind: str) -> Profile:
    """Let the target write to every preset of the kind, and score the draft along the way."""
    from specviz.engine import decode_plainly
    from specviz.engine.decoding.scoring import text_odds
    from specviz.engine.model.chat import encode_prompt

    settings = dataclasses.replace(config, max_new_tokens=_TEXT_LENGTH, stop=(), rule="lossless")
    texts: list[TextOdds] = []
    for preset in read_presets():
        if preset.kind != kind:
            continue
        prompt_ids = encode_prompt(pair, preset.text, chat=config.chat)
        emitted = tuple(decode_plainly(pair, prompt_ids, dataclasses.replace(settings, chat=False)))
        odds = text_odds(pair, prompt_ids, emitted, settings)
        texts.append(TextOdds(prompt=preset.text, odds=odds))
    profile = Profile(kind=kind, texts=tuple(texts))
    save_value(_KIND, profile_key(pair, config, kind), profile)
    return profile


def forecast(
    profile: Profile | None,
    costs: StepCosts | None,
    config: RunConfig,
    prompt: str,
    num_prompt: int,
) -> Forecast | None:
    """The speedup to expect of this run; None without a profile or step costs to go by."""
    if (
        profile is None
        or costs is None
        or not config.draft_method.needs_draft
        or not config.lossless
    ):
        return None
    others = [text.odds for text in profile.texts if text.prompt != prompt]
    others = [odds for odds in others if len(odds) > config.gamma]
    if not others:
        return None
    context = num_prompt + config.max_new_tokens / 2
    tau, bonus_share = _rounds_on(others, config.gamma)
    seconds = costs.draft_phase(context, config.gamma, bonus_share)
    seconds += costs.verify(context, config.gamma + 1)
    return Forecast(
        speedup=tau * costs.target_step(context) / seconds,
        tau=tau,
        kind=profile.kind,
        num_texts=len(others),
    )


def _rounds_on(texts: Sequence[Sequence[float]], gamma: int) -> tuple[float, float]:
    """Tokens per whole round, and the share of rounds that end with a bonus."""
    walks = [rounds_along(odds, gamma) for odds in texts]
    rounds = sum(walk.rounds for walk in walks)
    return sum(walk.tokens for walk in walks) / rounds, sum(w.bonuses for w in walks) / rounds


# For every gamma one may choose


def can_be_forecast(record: Trace) -> bool:
    """Whether a profile would be enough to forecast this run."""
    config, draft = record.config, record.pair.draft
    known_kind = record.prompt.kind is not None
    return known_kind and draft is not None and config.draft_method.needs_draft and config.lossless


def make_outlook(pair: Pair, record: Trace) -> Outlook | None:
    """None if no profile is stored, or if its texts are too short."""
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
    profile = stored_profile(pair, config, prompt.kind) if prompt.kind else None
    length = len(prompt.token_ids)
    made = {
        gamma: forecast(
            profile, costs, dataclasses.replace(config, gamma=gamma), prompt.text, length
        )
        for gamma in GAMMAS
    }
    return {gamma: each for gamma, each in made.items() if each is not None}

"""Forecast a run's speedup from step costs and from acceptance on texts of the prompt's kind.

A profile holds the odds (acceptance probability of each token) along texts that the target
generated for other prompts. The expected rounds along these texts are computed exactly for any
gamma, without assuming that all tokens have the same odds. A forecast never uses the run that it
predicts.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import TYPE_CHECKING

from specviz import ASSETS
from specviz.figures.arithmetic import known_ratio, log_interval
from specviz.figures.step_times import covers_gamma, joint_error, step_times, under_load
from specviz.figures.throughput import GAMMAS, Outlook
from specviz.figures.timing import AIM
from specviz.record.prompts import read_presets
from specviz.record.trace import Forecast, RunConfig, StepCosts, Trace
from specviz.store import load_value, save_value
from specviz.store.dataclass_json import from_json
from specviz.theory.along import Walk, rounds_along, variance_along
from specviz.theory.student import t_quantile
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

SHIPPED = ASSETS / "pairs" / "tinystories" / "acceptance.json"
_KIND = "acceptance"
_TEXT_LENGTH = 128


class TextOdds(Value):
    """A text that the target generated: its prompt, and the odds at each token."""

    prompt: str
    odds: tuple[float, ...]


class Profile(Value):
    """Acceptance probabilities of a pair along texts of one kind, for one sampling setting."""

    kind: str
    texts: tuple[TextOdds, ...]


class KeyedProfile(Value):
    key: str
    profile: Profile


class Shipped(Value):
    """The acceptance that specviz ships for the embedded pair, along texts for the presets."""

    profiles: tuple[KeyedProfile, ...]


def profile_key(pair: Pair, config: RunConfig, kind: str) -> str:
    draft = pair.info.draft.weights_sha256 if pair.info.draft else "none"
    sampling = f"temperature {config.temperature:g} top-k {config.top_k} top-p {config.top_p:g}"
    text = f"{kind} in chat" if config.chat else kind
    text += " beyond its end" if config.ignore_eos else ""
    return f"target {pair.info.target.weights_sha256} draft {draft}; {sampling}; {text}"


def stored_profile(pair: Pair, config: RunConfig, kind: str) -> Profile | None:
    """Return the pair's acceptance on this kind of text; None if it is neither stored nor shipped.

    Values measured on this machine are preferred. Shipped values are valid on every machine,
    because acceptance does not depend on the machine.
    """
    key = profile_key(pair, config, kind)
    return load_value(_KIND, key, Profile) or _shipped_profiles().get(key)


@functools.cache
def _shipped_profiles() -> dict[str, Profile]:
    shipped = from_json(SHIPPED.read_text(encoding="utf-8"), Shipped)
    return {each.key: each.profile for each in shipped.profiles}


def measure_profile(pair: Pair, config: RunConfig, kind: str) -> Profile:
    """Measure, store and return the acceptance of the pair on one kind of preset.

    The target alone decodes every preset of the kind; the draft is scored along these texts.
    """
    from specviz.engine import decode_plainly
    from specviz.engine.decoding.scoring import score_text
    from specviz.engine.model.chat import encode_prompt

    settings = dataclasses.replace(
        config, max_new_tokens=_TEXT_LENGTH, stop=(), rule="lossless", forks=()
    )
    texts: list[TextOdds] = []
    for preset in read_presets():
        if preset.kind != kind:
            continue
        prompt_ids = encode_prompt(pair, preset.text, chat=config.chat)
        emitted = tuple(decode_plainly(pair, prompt_ids, dataclasses.replace(settings, chat=False)))
        (scores,) = score_text(pair, prompt_ids, emitted, [settings])
        texts.append(TextOdds(prompt=preset.text, odds=scores.odds))
    profile = Profile(kind=kind, texts=tuple(texts))
    save_value(_KIND, profile_key(pair, config, kind), profile)
    return profile


def measure_for_shipping(pair: Pair) -> Shipped:
    """Measure and return the acceptance of the pair on every kind of preset.

    It is measured at temperature 0 and at the default temperature.
    """
    usual = RunConfig()
    configs = (usual, dataclasses.replace(usual, temperature=0.0))
    kinds = dict.fromkeys(preset.kind for preset in read_presets())
    made = [
        KeyedProfile(
            key=profile_key(pair, config, kind), profile=measure_profile(pair, config, kind)
        )
        for config in configs
        for kind in kinds
    ]
    return Shipped(profiles=tuple(made))


def forecast(
    profile: Profile | None,
    costs: StepCosts | None,
    config: RunConfig,
    prompt: str,
    num_prompt: int,
    *,
    load: float | None = None,
) -> Forecast | None:
    """Return the predicted speedup of a run.

    Return None if there are no step costs, or if ``profile`` (acceptance on other texts) is missing
    or does not predict the run.

    Args:
        load: How much of the processors other processes use now (share). The interval is wider if
            this share has changed since the step costs were measured.
    """
    walk = _expected_rounds(profile, config, prompt)
    if profile is None or walk is None or costs is None or not covers_gamma(costs, config.gamma):
        return None
    context = num_prompt + config.max_new_tokens / 2
    times = step_times(costs, context, config.gamma, drafts=True, fed_more=walk.bonus_share)
    times = under_load(times, costs.others, load)
    speedup = known_ratio(walk.tau, times.round_cost)
    if speedup is None:
        return None
    made = Forecast(speedup=speedup, tau=walk.tau, kind=profile.kind, num_texts=walk.num_texts)
    error = joint_error(walk.error, times.round_cost_error, AIM)
    ends = log_interval(speedup, error)
    if ends is None or error is None or walk.error is None:
        return made
    share = (walk.error / error) ** 2
    return dataclasses.replace(made, low=ends[0], high=ends[1], from_text=share)


class _Rounds(Value):
    tau: float
    bonus_share: float  # share of rounds with a bonus token
    num_texts: int
    error: float | None  # half-width of the 95 % interval of log τ on another text


def _expected_rounds(profile: Profile | None, config: RunConfig, prompt: str) -> _Rounds | None:
    """Return the expected rounds along the profile's texts, leaving out the text for ``prompt``.

    Return None if all these texts are too short, or if acceptance on them cannot predict the run.
    """
    if profile is None or not _is_predictable(config):
        return None
    others = [text.odds for text in profile.texts if text.prompt != prompt]
    others = [odds for odds in others if len(odds) > config.gamma]
    if not others:
        return None
    walks = [rounds_along(odds, config.gamma) for odds in others]
    rounds = sum(walk.rounds for walk in walks)
    tau = sum(walk.tokens for walk in walks) / rounds
    return _Rounds(
        tau=tau,
        bonus_share=sum(walk.bonuses for walk in walks) / rounds,
        num_texts=len(others),
        error=_error_of_text(others, walks, tau, config),
    )


def _error_of_text(
    texts: Sequence[Sequence[float]], walks: Sequence[Walk], tau: float, config: RunConfig
) -> float | None:
    """Return the half-width of the 95 % prediction interval of log τ for another text.

    The interval covers the spread between texts and the random draws along the new text. Return
    None if there is only one text.
    """
    count = len(walks)
    if count < 2:
        return None
    between = variance([math.log(walk.tokens / walk.rounds) for walk in walks])
    of_draws = fmean(variance_along(odds, config.gamma) for odds in texts)
    rounds = max(1.0, config.max_new_tokens / tau)
    spread = math.sqrt(between * (1 + 1 / count) + of_draws / rounds / tau**2)
    return t_quantile(0.975, count - 1) * spread


def _is_predictable(config: RunConfig) -> bool:
    """Return whether acceptance on other texts can predict runs with these settings."""
    return config.draft_method.needs_draft and config.by_odds and config.fixed_length


# Forecasts for every gamma


def can_be_forecast(record: Trace) -> bool:
    """Return whether acceptance on other texts could predict the acceptance of this run."""
    config, draft = record.config, record.pair.draft
    known_kind = record.prompt.kind is not None
    return known_kind and draft is not None and _is_predictable(config)


def make_outlook(pair: Pair, record: Trace) -> Outlook | None:
    """Return forecasts for every gamma; without step costs, they have no speedups.

    The result is None if acceptance is unknown for this kind of text, or if the texts with known
    acceptance are too short.
    """
    config, prompt = record.config, record.prompt
    profile = stored_profile(pair, config, prompt.kind) if prompt.kind else None
    known: dict[int, tuple[_Rounds, Forecast | None]] = {}
    for gamma in GAMMAS:
        at_gamma = dataclasses.replace(config, gamma=gamma)
        walk = _expected_rounds(profile, at_gamma, prompt.text)
        if walk is not None:
            length = len(prompt.token_ids)
            made = forecast(profile, record.step_costs, at_gamma, prompt.text, length)
            known[gamma] = walk, made
    if profile is None or not known:
        return None
    forecasts = [made for _, made in known.values()]
    return Outlook(
        gammas=tuple(known),
        speedups=tuple(made.speedup for made in forecasts if made is not None),
        taus=tuple(walk.tau for walk, _ in known.values()),
        kind=profile.kind,
        num_texts=known[1][0].num_texts,
    )

"""Measure how well step costs and forecasts predict speedups, and the speedup on stories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from specviz.figures.arithmetic import known_ratio
from specviz.figures.metrics import Metrics, metrics
from specviz.measure.forecast import Profile, forecast, measure_profile
from specviz.measure.measured_run import finish, measured_run
from specviz.measure.step_costs import step_costs
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig, StepCosts
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

_FORECAST_GAMMAS = (2, 4, 8)
_STORY = "story"
_TIMING_SECONDS = 5.0  # for timing each run


class BenchFigures(Value):
    accounting: float | None  # median of observed / accounted
    forecast_error: float | None  # median of |observed / forecast - 1|
    story_gamma: int  # best γ on stories that ``story_speedup`` leaves out
    story_speedup: float | None
    alpha_by_kind: dict[str, float | None]
    c: float | None
    v: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "story_gamma": self.story_gamma,
            "story_speedup": self.story_speedup,
            "alpha_by_kind": self.alpha_by_kind,
            "c": self.c,
            "v": self.v,
        }


def measure_figures(
    pair: Pair, prompts: Sequence[Preset], config: RunConfig, say: Callable[[str], None]
) -> BenchFigures:
    """Return how well measured step costs and acceptance predict the speedups of runs."""
    say("step costs")
    costs = step_costs(pair, config, fresh=True)
    say("acceptance on other texts")
    kinds = [preset.kind for preset in prompts]
    profiles = {kind: measure_profile(pair, config, kind) for kind in kinds}
    for kind in kinds:  # a second profile, for ordinary runs: they stop at EOS
        measure_profile(pair, replace(config, ignore_eos=False), kind)
    say("accounting")
    runs = {preset.kind: _measured(pair, preset, config) for preset in prompts}
    say("forecasts")
    errors = [
        _forecast_error(pair, preset, replace(config, gamma=gamma))
        for preset in prompts
        for gamma in _FORECAST_GAMMAS
    ]
    say("stories")
    gamma = _best_gamma(profiles[_STORY], costs, config, _held_back())
    stories = [_measured(pair, preset, replace(config, gamma=gamma)) for preset in _held_back()]
    first = next(iter(runs.values()))
    return BenchFigures(
        accounting=_median(
            known_ratio(m.speedup_observed, m.speedup_accounted) for m in runs.values()
        ),
        forecast_error=_median(errors),
        story_gamma=gamma,
        story_speedup=_median(m.speedup_observed for m in stories),
        alpha_by_kind={kind: m.alpha_observed for kind, m in runs.items()},
        c=first.c,
        v=first.v,
    )


def _measured(pair: Pair, preset: Preset, config: RunConfig) -> Metrics:
    return metrics(finish(measured_run(pair, preset.text, config, budget=_TIMING_SECONDS)))


def _forecast_error(pair: Pair, preset: Preset, config: RunConfig) -> float | None:
    result = _measured(pair, preset, config)
    ratio = known_ratio(result.speedup_observed, result.speedup_forecast)
    return None if ratio is None else abs(ratio - 1.0)


def _held_back() -> list[Preset]:
    """Return every second story, to measure the speedup on. γ is chosen on the other stories."""
    return [preset for preset in read_presets() if preset.kind == _STORY][::2]


def _best_gamma(
    profile: Profile, costs: StepCosts | None, config: RunConfig, measured: Sequence[Preset]
) -> int:
    """Return the γ with the highest forecast speedup on the profile's texts except ``measured``."""
    held_back = {preset.text for preset in measured}
    others = tuple(text for text in profile.texts if text.prompt not in held_back)
    known = replace(profile, texts=others)

    def predicted(gamma: int) -> float:
        made = forecast(known, costs, replace(config, gamma=gamma), "", 20)
        return made.speedup if made else 0.0

    return max(range(1, 13), key=predicted)


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None

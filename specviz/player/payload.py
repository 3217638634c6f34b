"""The player's data as values for JSON; the types are in assets/player/payload.d.ts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal

from specviz.figures.agreement import agreement
from specviz.figures.body_words import SpeedupWithoutBody
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.roofline import FREE, Pass, Roofline
from specviz.figures.roofline_words import roofline_words
from specviz.figures.round_cost import (
    RoundCost,
    SimulatedSteps,
    at_simulated_size,
    predicted_round_cost,
    round_cost_of,
)
from specviz.figures.speedup_words import is_undecided
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.figures.throughput import (
    Outlook,
    ThroughputCurves,
    extrapolated_curves,
    predicted_curves,
)
from specviz.player.chat_parts import prompt_parts
from specviz.player.round_values import (
    JsonObject,
    fork_items,
    forked_text,
    head_item,
    lanes,
    round_items,
    step_seconds,
    target_step,
)
from specviz.player.summary import summary
from specviz.record.run_facts import sampling_words
from specviz.record.server_run import AnyTrace
from specviz.record.trace import RunConfig, Trace
from specviz.values import Value

_FEW_ROUNDS = 10
Tour = Literal["ask", "force", "never"]


class RunStatus(Value):
    """The state of a run, as the player shows it."""

    id: str
    state: str
    label: str
    detail: str = ""
    remedy: str = ""
    sentence: str | None = None  # shown while there is no verdict
    decoded: bool = True  # decoding is complete
    waiting: bool = False  # the player still shows the previous run
    forkable: bool = False  # the user can fork it
    recorded_only: bool = False  # the user cannot make runs here


class RunLink(Value):
    """What the player needs to make links to a moment of the run, such as a round."""

    kept: bool  # the run is in the library under its id
    settings: str | None  # query string that sets the controls to the run's settings
    local: bool  # only this machine can reach the server
    # The number of the last handled request to open a replay at a moment.
    heard: int | None = None


class ChartPoint(Value):
    """A run on the throughput chart."""

    gamma: int
    rate: float
    label: str
    current: bool
    partial: bool  # whether the run was stopped early
    few: bool  # whether it has too few rounds for a reliable rate


class RunChoice(Value):
    """A requested run: settings, prompt, and the prompt's kind."""

    config: RunConfig
    prompt: str
    kind: str | None  # None unless the prompt is a preset
    detects_chat: bool = False  # whether to use a chat template if loading finds one
    simulated: SimulatedSteps | None = None  # None if the chosen sizes are those of the shown run


def payload(
    trace: Trace,
    status: RunStatus,
    *,
    start: int = 0,
    curves: ThroughputCurves | None = None,
    points: Sequence[ChartPoint] = (),
    chosen: RunChoice | None = None,
    foresees: bool = True,
    figures: Metrics | None = None,
    growing: bool = False,
    so_far: bool = False,
    tour: Tour = "never",
    own_speedup: SpeedupWithoutBody | None = None,
    forked: Trace | None = None,
    link: RunLink | None = None,
    moment: Mapping[str, str] | None = None,
) -> JsonObject:
    """Return the player's data, with the rounds from ``start`` on.

    Args:
        foresees: Whether the bar chart shows the predicted cost of a round if the user has chosen
            another γ or size.
        so_far: Whether the target alone is still being timed.
        own_speedup: The pair's speedup at its real size, if the run has simulated sizes.
        forked: The run from which this run was forked.
        moment: Where to open the run, as query parameters of a link.
    """
    figures = figures or metrics(trace)
    config, own = trace.config, {"forks": fork_items(trace), "head": head_item(trace)}
    return shared_payload(trace, status, config, own, growing=growing, link=link, moment=moment) | {
        "prompt": prompt_parts(trace),
        "rounds": {
            "from": start,
            "items": round_items(trace, start),
            "total": len(trace.rounds),
        },
        "lanes": lanes(trace, is_open=is_undecided(figures)),
        "step_costs": step_seconds(figures.steps),
        "summary": summary(
            trace,
            figures,
            sentence=status.sentence,
            growing=growing,
            so_far=so_far,
            own_speedup=own_speedup,
            round_cost=_chosen_round_cost(figures, curves, chosen) if foresees else None,
        ),
        "charts": {
            "throughput": _throughput(curves, points, trace, figures, chosen),
            "agreement": asdict(found) if (found := agreement(figures)) else None,
            "break_even": figures.break_even_alpha,
            "roofline": _roofline(figures.roofline),
            "left_out": _left_out(trace.config),
        },
        "tour": tour if trace.config.by_odds else "never",
        "forked": forked_text(trace, forked) if forked is not None else None,
    }


def shared_payload(
    trace: AnyTrace,
    status: RunStatus,
    config: RunConfig,
    run: JsonObject,
    *,
    growing: bool,
    link: RunLink | None,
    moment: Mapping[str, str] | None,
) -> JsonObject:
    """Return the data that a run of specviz and another engine's answer have in common.

    Args:
        config: The settings that describe how candidates are verified.
        run: Entries to add to the data's ``run``; they replace shared entries of the same name.
    """
    facts = trace.facts
    known = {
        **{name: value for name, value in asdict(status).items() if name != "sentence"},
        "lossy": not config.exact,
        "epsilon": config.epsilon,
        "has_alpha": config.has_alpha,
        "residual": config.residual,
        "deciding": config.judging.deciding,
        "greedy": facts.temperature == 0,
        "gamma": facts.gamma,
        "temperature": facts.temperature,
        "forks": [],
        "engine": None,
    }
    return {
        "run": known | run,
        "step_costs": None,
        "growing": growing,
        "tour": "never",
        "forked": None,
        "link": asdict(link) if link is not None else None,
        "moment": dict(moment) if moment else None,
    }


def curves_of(trace: Trace, figures: Metrics, outlook: Outlook | None) -> ThroughputCurves | None:
    """Return the throughput for each γ: forecast from other texts, or extrapolated from this run.

    Return None if the formulas do not apply, or if the step costs or the acceptance are unknown.
    """
    costs = trace.step_costs
    if not _has_curves(trace.config):
        return None
    if costs is None or (not costs.draft and trace.config.draft_method.has_steps):
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    if outlook is not None and outlook.speedups:
        return predicted_curves(costs, context, outlook.speedups, outlook.alpha)
    if figures.alpha_expected is None:
        return None
    return extrapolated_curves(costs, context, figures.alpha_expected)


def chart_point(trace: Trace, figures: Metrics, *, current: bool) -> ChartPoint | None:
    if figures.tokens_per_second is None:
        return None
    config = trace.config
    return ChartPoint(
        gamma=config.gamma,
        rate=figures.tokens_per_second,
        label=f"γ {config.gamma}, {sampling_words(config.temperature)}, "
        f"{trace.prompt.kind or 'custom prompt'}",
        current=current,
        partial=trace.finish == "stopped",
        few=figures.num_whole_rounds < _FEW_ROUNDS,
    )


def _chosen_round_cost(
    figures: Metrics, curves: ThroughputCurves | None, chosen: RunChoice | None
) -> RoundCost | None:
    """Return the predicted cost of a round with the chosen γ and the chosen simulated sizes.

    Return None if the run already has this γ and these sizes. Also return None if the user chose
    another setting that changes the acceptance.
    """
    trace = figures.trace
    if chosen is None or _is_stale(chosen, trace):
        return None
    found, gamma = None, chosen.config.gamma
    if gamma != trace.config.gamma:
        found = predicted_round_cost(trace, curves, gamma)
    steps, step = chosen.simulated, target_step(trace)
    known = found or (round_cost_of(figures) if gamma == trace.config.gamma else None)
    if steps is None or step is None or known is None:
        return found
    return at_simulated_size(known, step, steps)


def _left_out(config: RunConfig) -> JsonObject | None:
    """Return the charts that do not apply to this method, and why; None if all charts apply."""
    charts, why = list[str](), list[str]()
    if not config.has_alpha:
        charts += ["acceptance", "places"]
        why.append(f"acceptance over rounds and by position, because {config.without_alpha}")
    if not _has_curves(config):
        charts.append("throughput")
        why.append("throughput by γ, because its formulas assume one chain of γ candidates")
    return {"charts": charts, "why": f"Charts left out: {'; '.join(why)}."} if charts else None


def _has_curves(config: RunConfig) -> bool:
    return config.formulas_hold or not config.draft_method.fills_rounds


def _throughput(
    curves: ThroughputCurves | None,
    points: Sequence[ChartPoint],
    trace: Trace,
    figures: Metrics,
    chosen: RunChoice | None,
) -> JsonObject | None:
    if curves is None:
        return None
    return {
        "gammas": list(curves.gammas),
        "ideal": [round(rate, 2) for rate in curves.ideal],
        "forecast": [round(rate, 2) for rate in curves.forecast],
        "extrapolated": curves.extrapolated,
        "stale": chosen is not None and _is_stale(chosen, trace),
        "target": round(curves.target, 2),
        "measured_target": figures.baseline_tokens_per_second,
        "doubt": step_cost_warning(trace.step_costs),
        "chosen": _predicted_rate(curves, chosen.config.gamma) if chosen is not None else None,
        "points": [asdict(point) for point in points],
    }


def _roofline(found: Roofline | None) -> JsonObject | None:
    if found is None:
        return None
    return {
        "passes": [_pass(each) for each in found.passes],
        "draft": _pass(found.draft) if found.draft else None,
        "interpolated": list(found.interpolated),
        "gamma": found.gamma,
        "free": found.free.gamma if found.free else 0,
        "limit": FREE,
        "words": roofline_words(found),
    }


def _pass(made: Pass) -> JsonObject:
    """Return a forward pass's seconds, their relative error, and the least possible seconds.

    An error of 1 or more becomes None.
    """
    error = None if made.error is None or made.error >= 1 else round(made.error, 4)
    return {"seconds": made.seconds, "error": error, "floor": made.floor}


def _predicted_rate(curves: ThroughputCurves, gamma: int) -> JsonObject:
    """Return γ and its forecast tokens per second (None if the curves do not reach γ)."""
    known = dict(zip(curves.gammas, curves.forecast, strict=True))
    return {"gamma": gamma, "rate": round(known[gamma], 2) if gamma in known else None}


def _is_stale(chosen: RunChoice, trace: Trace) -> bool:
    """Return whether the trace's forecast does not apply to the chosen settings and prompt."""
    chat = trace.config.chat if chosen.detects_chat else chosen.config.chat
    chosen = replace(chosen, config=replace(chosen.config, chat=chat))
    return _forecast_key(chosen) != _forecast_key(_choice_of(trace))


def _choice_of(trace: Trace) -> RunChoice:
    return RunChoice(config=trace.config, prompt=trace.prompt.text, kind=trace.prompt.kind)


def _forecast_key(choice: RunChoice) -> tuple[object, ...]:
    """Return the values on which acceptance, and thus a forecast, depends."""
    config = choice.config
    method = (config.rule, config.epsilon, config.residual, config.draft_until)
    shape = (config.shape[:1], config.dynamic_tree)
    sampling = (config.temperature, config.top_k, config.top_p)
    prompt = (choice.kind or choice.prompt, config.chat, config.ignore_eos)
    return (*sampling, config.drafter, *method, *shape, *prompt)

"""Texts about a comparison: its prompts, settings and number of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Plan
from specviz.comparison.results import Comparison
from specviz.figures.body_words import cost_sentences, weak_baseline_warning
from specviz.figures.paired import Ratio

_HEAD = 60  # characters shown of a prompt


def num_runs(plan: Plan) -> int:
    """Return the number of planned runs, over all lanes."""
    return len(plan.lanes) * len(plan.items) * plan.repeats


def basis(comparison: Comparison) -> str:
    """Return the numbers of runs, prompts and repeats, and the machines, as a text."""
    plan, wanted = comparison.plan, num_runs(comparison.plan)
    count = f"{comparison.count} runs" if comparison.complete else (
        f"{comparison.count} of {wanted} runs"
    )  # fmt: skip
    prompts = "one prompt" if len(plan.items) == 1 else f"{len(plan.items)} prompts"
    how = made_on(comparison) or "made one at a time."
    return f"{count}: {prompts}, {_repeats(plan)}, {length_text(plan)} each, {how}"


def made_on(comparison: Comparison) -> str:
    """Return on how many devices of which kinds the runs were made; "" without a cluster."""
    if not comparison.shared_out:
        return ""
    count = sum(each.devices for each in comparison.machines)
    kinds = ", ".join(each.words for each in comparison.machines)
    return f"made on {count} device{'s' * (count != 1)}: {kinds}."


def body_facts(comparison: Comparison, measured: Sequence[LaneRun]) -> tuple[str, ...]:
    """Return sentences on the lanes' simulated sizes, with a warning for a weak baseline.

    Lanes with the same sentences share one entry.
    """
    runs = {run.job.lane: run for run in reversed(measured)}  # the first run of each lane
    lanes_by_text: dict[str, list[str]] = {}
    for index, lane in enumerate(comparison.lanes):
        run = runs.get(index)
        if run is not None and run.trace.pair.has_bodies:
            facts = " ".join([*cost_sentences(run.trace.pair), *weak_baseline_warning(run.figures)])
            lanes_by_text.setdefault(facts, []).append(lane.label)
    return tuple(f"{_listed(labels)}: {facts}" for facts, labels in lanes_by_text.items())


def _listed(labels: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(labels[:-1]), labels[-1]) if part)


def settings_of(plan: Plan) -> str:
    """Return the settings that all lanes share, as one line: prompt, temperature, seeds and so on.

    Seeds are left out at temperature 0, where they have no effect.
    """
    parts = (
        _prompts(plan), _chat(plan), _temperature(plan), _seeds(plan), length_text(plan),
        _repeats(plan),
    )  # fmt: skip
    return " · ".join(part for part in parts if part)


def interval_words(ratios: Iterable[Ratio | None]) -> str:
    """Return what a mean's interval covers, as words to put after "mean"."""
    match interval_units(ratios):
        case ["prompts"]:
            return "with its 95 % interval over prompts"
        case ["repeats"]:
            return "with its 95 % interval over repeats"
        case ["timing"]:
            return "with the 95 % interval of its timing"
        case []:
            return "without an interval, because there are too few runs"
        case _:
            return "with its 95 % interval over prompts, or over repeats if a lane has one prompt"


def interval_units(ratios: Iterable[Ratio | None]) -> list[str]:
    """Return what the intervals cover: prompts, repeats or timing; empty without intervals."""
    return sorted({each.units for each in ratios if each is not None and each.low is not None})


def _prompts(plan: Plan) -> str:
    first, *others = plan.items
    if others:
        return f"{len(plan.items)} prompts"
    text = " ".join(first.prompt.split())
    return f"“{text if len(text) <= _HEAD else text[: _HEAD - 1] + '…'}”"


def _temperature(plan: Plan) -> str:
    """Return the temperature; empty if it differs between lanes, because their labels show it."""
    found = {lane.config.temperature for lane in plan.lanes}
    return "" if len(found) > 1 else f"T {found.pop():g}"


def _seeds(plan: Plan) -> str:
    if all(lane.config.temperature == 0 for lane in plan.lanes):
        return ""
    first = plan.lanes[0].config.seed
    return f"seed {first}" if plan.repeats == 1 else f"seeds {first}–{first + plan.repeats - 1}"


def _chat(plan: Plan) -> str:
    return "chat template" if plan.lanes[0].config.chat else ""


def length_text(plan: Plan) -> str:
    """Return the length of a run in words: "at most N tokens", or "N tokens" if EOS is ignored."""
    config = plan.lanes[0].config
    return f"{'' if config.ignore_eos else 'at most '}{config.max_new_tokens} tokens"


def _repeats(plan: Plan) -> str:
    return "one repeat" if plan.repeats == 1 else f"{plan.repeats} repeats"

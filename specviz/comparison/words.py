"""In words: the prompts and settings of a comparison, and how many runs it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Plan
from specviz.comparison.results import Comparison
from specviz.figures.body_words import cost_sentences, weak_baseline_warning
from specviz.figures.paired import Ratio

_HEAD = 60  # characters shown of a prompt


def num_runs(plan: Plan) -> int:
    """How many runs are planned, over all lanes."""
    return len(plan.lanes) * len(plan.items) * plan.repeats


def basis(comparison: Comparison) -> str:
    """How many runs there are, and on what they were made."""
    plan, wanted = comparison.plan, num_runs(comparison.plan)
    count = f"{comparison.count} runs" if comparison.complete else (
        f"{comparison.count} of {wanted} runs"
    )  # fmt: skip
    prompts = "one prompt" if len(plan.items) == 1 else f"{len(plan.items)} prompts"
    how = made_on(comparison) or "one at a time."
    return f"{count}: {prompts}, {_repeats(plan)}, {_length(plan)} each, {how}"


def made_on(comparison: Comparison) -> str:
    """On how many devices of which kinds; empty where one machine made all runs."""
    if not comparison.shared_out:
        return ""
    count = sum(each.devices for each in comparison.machines)
    kinds = ", ".join(each.words for each in comparison.machines)
    return f"made on {count} device{'s' * (count != 1)}: {kinds}."


def body_facts(comparison: Comparison, measured: Sequence[LaneRun]) -> tuple[str, ...]:
    """What the bodies of the lanes are, and whether they flatter a speedup; each fact once."""
    runs = {run.job.lane: run for run in reversed(measured)}  # the first of each lane
    told: dict[str, list[str]] = {}
    for index, lane in enumerate(comparison.lanes):
        run = runs.get(index)
        if run is not None and run.trace.pair.has_bodies:
            facts = " ".join([*cost_sentences(run.trace.pair), *weak_baseline_warning(run.figures)])
            told.setdefault(facts, []).append(lane.label)
    return tuple(f"{_listed(labels)}: {facts}" for facts, labels in told.items())


def _listed(labels: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(labels[:-1]), labels[-1]) if part)


def settings_of(plan: Plan) -> str:
    """What all lanes share, in one line: prompt, temperature, seeds, length and repeats."""
    parts = (_prompts(plan), _temperature(plan), _seeds(plan), _length(plan), _repeats(plan))
    return " · ".join(part for part in parts if part)


def interval_words(ratios: Iterable[Ratio | None]) -> str:
    """Goes on from "the mean": what the interval is over decides what may be claimed."""
    match interval_units(ratios):
        case ["prompts"]:
            return "with its 95 % interval over prompts"
        case ["seeds"]:
            return "with its 95 % interval over seeds"
        case ["timing"]:
            return "with the 95 % interval of its timing"
        case []:
            return "of too few runs for an interval"
        case _:
            return "with its 95 % interval over prompts, or over seeds for a lane with one prompt"


def interval_units(ratios: Iterable[Ratio | None]) -> list[str]:
    """What the intervals are over: prompts, seeds or both; empty where there is none."""
    return sorted({each.over for each in ratios if each is not None and each.low is not None})


def _prompts(plan: Plan) -> str:
    first, *others = plan.items
    if others:
        return f"{len(plan.items)} prompts"
    words = " ".join(first.prompt.split())
    return f"“{words if len(words) <= _HEAD else words[: _HEAD - 1] + '…'}”"


def _temperature(plan: Plan) -> str:
    """Empty where the lanes differ in it: then their labels name it."""
    found = {lane.config.temperature for lane in plan.lanes}
    return "" if len(found) > 1 else f"T {found.pop():g}"


def _seeds(plan: Plan) -> str:
    first = plan.lanes[0].config.seed
    return f"seed {first}" if plan.repeats == 1 else f"seeds {first}–{first + plan.repeats - 1}"


def _length(plan: Plan) -> str:
    return f"{plan.lanes[0].config.max_new_tokens} tokens"


def _repeats(plan: Plan) -> str:
    return "one repeat" if plan.repeats == 1 else f"{plan.repeats} repeats"

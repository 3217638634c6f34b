"""Words beside the figures of a comparison: what they rest on, and over what an interval goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specviz.comparing import Comparison, KindResult, Ratio
from specviz.ui.compare_lanes import plain

NO_KIND = "no kind"


def first_sentence(text: str) -> str:
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def basis(comparison: Comparison) -> str:
    """How many runs of what."""
    plan = comparison.plan
    wanted = len(plan.lanes) * len(plan.items) * plan.repeats
    prompts = "one prompt" if len(plan.items) == 1 else f"{len(plan.items)} prompts"
    count = f"{comparison.count} runs" if comparison.complete else (
        f"{comparison.count} of {wanted} runs"
    )  # fmt: skip
    length = plan.lanes[0].config.max_new_tokens
    repeats = "one repeat" if plan.repeats == 1 else f"{plan.repeats} repeats"
    return f"{count}: {prompts}, {repeats}, {length} tokens each, one at a time."


def with_intervals(ratios: Iterable[Ratio | None]) -> str:
    """To follow "the mean": units of another sort would be another claim."""
    match _units(ratios):
        case ["prompts"]:
            return "with its 95 % interval over prompts"
        case ["seeds"]:
            return "with its 95 % interval over seeds"
        case []:
            return "of too few runs for an interval"
        case _:
            return "with its 95 % interval over prompts, of a lane with one prompt over seeds"


def kinds_with_intervals(kinds: Sequence[KindResult]) -> str:
    """The same for each kind of text; those unlike the others are named."""
    groups: dict[str, list[str]] = {}
    for each in kinds:
        groups.setdefault(_of_kind(each), []).append(plain(each.kind or NO_KIND))
    if len(groups) == 1:
        return f"{next(iter(groups)).capitalize()}."
    told = (f"{words} for {', '.join(names)}" for words, names in sorted(groups.items()))
    return f"{'; '.join(told).capitalize()}."


def _of_kind(kind: KindResult) -> str:
    units = _units(ratio for lane in kind.lanes for ratio in (lane.speedup_ratio, lane.expected))
    return f"95 % intervals over {' or '.join(units)}" if units else "no intervals, with one run"


def _units(ratios: Iterable[Ratio | None]) -> list[str]:
    """What the intervals go over; none of what has no interval."""
    return sorted({each.over for each in ratios if each is not None and each.low is not None})

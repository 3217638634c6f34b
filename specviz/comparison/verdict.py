"""The verdict of a comparison: which lane is faster, with statistics and the reason.

A lane is called faster only if the interval of the paired ratio excludes 1. With more than two
lanes, the intervals between lanes have a joint confidence of 95 % (Bonferroni). The reason
compares tau, the tokens per round, with the cost of a round in target steps, gamma c + v
(Leviathan et al. 2023, with verification at its measured cost); see ``why_faster``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from specviz.comparison.lane_results import LaneResult
from specviz.comparison.machines import kind_of
from specviz.comparison.why_faster import why_faster
from specviz.figures.arithmetic import log_interval
from specviz.figures.paired import CONFIDENCE, PromptRepeat, Ratio, Values, ratio
from specviz.figures.speedup_words import is_wide, verdict_words
from specviz.record.numbers import PERCENT, RATIO, times
from specviz.values import Value

_UNTIMED = "Only acceptance is compared, because several runs were made at once."
_FACTOR = 1.4  # smaller differences are given in percent
LaneRatios = Mapping[tuple[int, int], Ratio]


class ComparisonVerdict(Value):
    """The verdict, as text and values.

    ``ranking`` lists the lanes by mean log speed, fastest first. ``winner`` is the first lane of
    the ranking if this lane is shown to be faster than the second lane; else it is None.
    ``ratios[i, j]`` is the ratio of the speed of lane i to the speed of lane j. ``same_question``:
    whether all lanes have the same target.
    """

    text: str
    winner: int | None
    ranking: tuple[int, ...]
    ratios: LaneRatios
    same_question: bool
    notes: tuple[str, ...] = ()


def verdict_of(
    results: Sequence[LaneResult], rates: Sequence[Values], *, untimed: bool = False
) -> ComparisonVerdict:
    """Return which lane is faster, by how much and why.

    Args:
        results: The lanes' results.
        rates: The log speeds of each lane.
        untimed: Whether several runs were made at once, so that there are no speeds.
    """
    ranking, ratios = _ranking(rates), _ratios(results, rates)
    lead = _lead(ranking, ratios)
    winner = ranking[0] if lead is not None and lead.differs else None
    notes = _notes(results, ratios)
    same = _same_target(results)
    main = _UNTIMED if untimed else _main_sentence(results, ranking, lead, winner)
    return ComparisonVerdict(
        text=" ".join([main, *_against_target(results), *notes]),
        winner=winner,
        ranking=ranking,
        ratios=ratios,
        same_question=same,
        notes=notes,
    )


def _ratios(results: Sequence[LaneResult], rates: Sequence[Values]) -> LaneRatios:
    lanes = range(len(rates))
    confidence = 1 - (1 - CONFIDENCE) / _num_pairs(len(rates))
    found = {(i, j): ratio(rates[i], rates[j], confidence) for i in lanes for j in lanes if i != j}
    return {
        (i, j): _with_timing_interval(value, results[i], results[j]) if value.low is None else value
        for (i, j), value in found.items()
        if value is not None
    }


def _num_pairs(lanes: int) -> int:
    return max(1, lanes * (lanes - 1) // 2)


def _with_timing_interval(found: Ratio, first: LaneResult, second: LaneResult) -> Ratio:
    """Return ``found``, the ratio of two lanes' speeds, with an interval for timing noise.

    If a lane has several runs, or if the lanes have different targets, return ``found`` unchanged.
    """
    one, other = first.speedup_ratio, second.speedup_ratio
    if one is None or other is None or {one.over, other.over} != {"timing"}:
        return found
    if not _same_target([first, second]) or not (one.low and one.high and other.low and other.high):
        return found
    error = math.hypot(math.log(one.high / one.low), math.log(other.high / other.low)) / 2
    value, count = one.value / other.value, min(one.count, other.count)
    low, high = log_interval(value, error) or (None, None)
    return Ratio(value=value, low=low, high=high, over="timing", count=count)


def _ranking(rates: Sequence[Values]) -> tuple[int, ...]:
    """Return the indices of the lanes, fastest first, by mean log speed.

    The mean is over the prompts and repeats for which all lanes have a run.
    """
    known = [lane for lane, each in enumerate(rates) if each]
    if not known:
        return ()
    common = set[PromptRepeat].intersection(*(set(rates[lane]) for lane in known))
    if not common:
        return ()
    means = {lane: _mean_over_prompts(rates[lane], common) for lane in known}
    return tuple(sorted(known, key=lambda lane: -means[lane]))


def _lead(ranking: tuple[int, ...], ratios: LaneRatios) -> Ratio | None:
    return ratios.get((ranking[0], ranking[1])) if len(ranking) > 1 else None


def _mean_over_prompts(rates: Values, places: set[PromptRepeat]) -> float:
    items = {place[0] for place in places}
    return fmean(fmean(rates[place] for place in places if place[0] == item) for item in items)


# Sentences


def _main_sentence(
    results: Sequence[LaneResult], ranking: tuple[int, ...], lead: Ratio | None, winner: int | None
) -> str:
    if len(ranking) < 2 or lead is None:
        return "There are too few runs to compare, so there is no verdict."
    first, second = results[ranking[0]], results[ranking[1]]
    rest = _rest(results, ranking)
    if lead.low is None or lead.high is None:
        return f"{_without_interval(first, second)}{rest}"
    if winner is None:
        return f"{_sentence(first, lead, second.label)}{_narrowing(lead)}{rest}"
    what = "is faster than" if len(ranking) == 2 else "is fastest, ahead of"
    why = why_faster(first, second, same_target=_same_target(results))
    because = f": {why}" if why else "."
    return f"{first.label} {what} {second.label} {_by(lead)}{because}{rest}"


def _without_interval(first: LaneResult, second: LaneResult) -> str:
    if first.count == second.count == 1:
        return "One run of each lane gives no interval, so there is no verdict."
    return "One pair of runs with the same seed gives no interval, so there is no verdict."


def _narrowing(lead: Ratio) -> str:
    """Return advice to measure more prompts or repeats; empty if there are enough.

    Student's t gives a wide interval for only two prompts or repeats.
    """
    what = "prompts" if lead.over == "prompts" else "repeats"
    few = lead.count < 3 or lead.over == "timing"
    return f" More {what} would narrow the interval." if few else ""


def _rest(results: Sequence[LaneResult], ranking: tuple[int, ...]) -> str:
    if len(ranking) < 3:
        return ""
    return f" In order of mean rate: {', '.join(results[lane].label for lane in ranking)}."


def _by(lead: Ratio) -> str:
    """Return the difference as a percentage or factor, or only the ends of a wide interval."""
    assert lead.low is not None
    assert lead.high is not None
    if is_wide(lead.low, lead.high):
        range_ = f"{RATIO.bare(lead.low)} to {RATIO.bare(lead.high)}"
        return f"by a factor of {range_} ({_over(lead)})"
    if lead.value >= _FACTOR:
        range_ = RATIO.span(lead.low, lead.high)
        return f"by a factor of {RATIO.bare(lead.value)} ({range_}, {_over(lead)})"
    range_ = PERCENT.between(lead.low - 1, lead.high - 1)
    return f"by {PERCENT.shown(lead.value - 1)} ({range_}, {_over(lead)})"


def _over(found: Ratio) -> str:
    if found.over == "timing":
        return f"one text each, {found.count} timed slice{'s' * (found.count != 1)}"
    return f"over {found.count} {found.units}"


def _against_target(results: Sequence[LaneResult]) -> list[str]:
    known = [each for each in results if each.speedup_ratio is not None]
    if not known:
        return ["The target alone was not measured."]
    return [_beside_target(each, each.speedup_ratio) for each in known if each.speedup_ratio]


def _beside_target(result: LaneResult, speedup: Ratio) -> str:
    value = times(speedup.value)
    if speedup.low is None or speedup.high is None:
        return f"{result.label} ran at {value} the rate of the target alone."
    return _sentence(result, speedup, "the target alone")


def _sentence(result: LaneResult, found: Ratio, beside: str) -> str:
    assert found.low is not None
    assert found.high is not None
    text = verdict_words(found.value, found.low, found.high, _over(found), beside)
    return f"{result.label}: {text[:1].lower()}{text[1:]}."


# Notes


def _notes(results: Sequence[LaneResult], ratios: LaneRatios) -> tuple[str, ...]:
    notes: list[str] = []
    if (pairs := _num_pairs(len(results))) > 1 and ratios:
        notes.append(f"Intervals between lanes are adjusted for {pairs} simultaneous comparisons.")
    if not _same_target(results):
        notes.append(
            "The lanes have different targets, which generate different texts. So a faster lane "
            "does not do the same work faster."
        )
    if not _same_distribution(results):
        notes.append(
            "The lanes' sampling settings differ, so their texts have different distributions."
        )
    kinds = {kind_of(each) for result in results for each in result.environments}
    if _is_mixed(results):
        notes.append(
            f"The runs were made on {len(kinds)} kinds of machine: lanes are compared within each "
            "kind, and times of different kinds are not pooled."
        )
    if not _same_machine(results):
        notes.append("Not all runs were made on the same machine with the same settings.")
    return tuple(notes)


def _same_target(results: Sequence[LaneResult]) -> bool:
    """Return whether all lanes have the same target.

    Targets are compared by name and weights; until every lane has a run, only by name.
    """
    runs = [each.representative for each in results]
    known = [each.trace.pair.target for each in runs if each is not None]
    if len(known) == len(results):
        return len({(each.name, each.weights_sha256) for each in known}) == 1
    return len({(each.lane.spec.name, each.lane.spec.target) for each in results}) == 1


def _same_distribution(results: Sequence[LaneResult]) -> bool:
    """Return whether the texts of all lanes have the same distribution."""
    configs = [each.lane.config for each in results]
    sampling = {(each.temperature, each.top_k, each.top_p) for each in configs}
    lossy = {(each.rule, each.epsilon, each.residual) for each in configs if not each.exact}
    return len(sampling) == 1 and (not lossy or all(not each.exact for each in configs))


def _same_machine(results: Sequence[LaneResult]) -> bool:
    """Return whether one machine made all runs.

    If a lane has runs on several kinds of machine, return whether each kind has only one machine.
    """
    machines = {
        (each.device, each.device_name, each.cpu, each.threads, *sorted(each.versions.items()))
        for result in results
        for each in result.environments
    }
    kinds = {(name, cpu) for _, name, cpu, *_ in machines}
    return len(machines) <= (len(kinds) if _is_mixed(results) else 1)


def _is_mixed(results: Sequence[LaneResult]) -> bool:
    """Return whether any lane's runs come from several kinds of machine."""
    return any(len({kind_of(each) for each in own.environments}) > 1 for own in results)

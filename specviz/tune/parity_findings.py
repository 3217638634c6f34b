"""Find out where an engine's acceptance differs from the reference.

A difference is a finding if its interval excludes 0. All intervals are corrected for the number of
comparisons. If the counts cannot distinguish several causes, the finding names all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specviz.record.numbers import PERCENT, PROBABILITY, TOKENS
from specviz.tune.parity_statistics import (
    Estimate,
    accepted_length,
    at_position,
    distance,
    nearer,
    share_interval,
)
from specviz.tune.parity_values import (
    Condition,
    ConditionResult,
    Counts,
    EngineMeasurement,
    Finding,
    FindingKind,
    ParityReport,
    PositionResult,
    Rates,
    Sample,
    total,
)
from specviz.values import Value

LEVEL = 0.05  # probability that an engine without a difference gets a finding
_DIFFERENT_DRAFTS = 0.02  # relative difference of drafted candidates per round that is reported
_ROUNDING = 0.1  # share of texts that may differ because half precision rounds
_LARGEST = 700.0  # the exponential of a larger logarithm may overflow
_FROM_THE_START = "other layers, another norm, other token ids, another target, or another head"
_CAUSES: dict[Condition, str] = {
    "repeated": "when a prompt is sent again: the prefix cache of the engine is the cause",
    "concurrent": "when several requests run at once",
    "sampled": "at temperature {temperature:g} than at temperature 0, relative to the reference. "
    "The reference drafts greedily, so it does not apply to an engine that samples its drafts",
}


class Reference(Value):
    """How many candidates specviz's rounds draft and accept along the texts of a sample.

    There is one entry per unit, that is, per answer or per group of simultaneous answers.
    """

    sample: Sample
    counts: tuple[Counts, ...]

    @property
    def engine(self) -> tuple[Counts, ...]:
        return tuple(each.counts for each in self.sample.units)

    @property
    def members(self) -> list[list[int]]:
        """Return the prompts' numbers for each answer or group of simultaneous answers."""
        return [[text.number for text in each.texts] for each in self.sample.units]

    def grouped(self, members: Sequence[Sequence[int]]) -> Reference:
        """Return a reference with larger units: each is the sum of several units of this reference.

        Each entry of ``members`` lists the indices of the units to add up.
        """
        units = [replace(self.sample.units[0], counts=total([self.engine[each] for each in some]))
                 for some in members]  # fmt: skip
        return Reference(
            sample=replace(self.sample, units=tuple(units)),
            counts=tuple(total([self.counts[each] for each in some]) for some in members),
        )

    def difference(self) -> Estimate:
        """Return the mean of log(engine's τ / reference's τ) over answers or groups of answers."""
        return accepted_length(self.engine) - accepted_length(self.counts)


class SettingCounts(Value):
    """How many candidates our rounds draft and accept per prompt, with one choice of settings."""

    words: str
    counts: tuple[Counts, ...]


def report_of(
    measured: EngineMeasurement,
    references: Sequence[Reference],
    settings: Sequence[SettingCounts],
    *,
    tried: int,
    head: str,
    target: str,
    departures: Sequence[float],
    notes: Sequence[str],
    other: tuple[str, Reference] | None = None,
) -> ParityReport:
    """Return the report that compares one engine with the reference.

    Args:
        references: one for each sample of the measurement.
        settings: counts for each choice of head settings. The settings in the head's files come
            first. Empty if no other settings were tried.
        tried: the number of settings to choose from, for the correction of intervals.
        departures: for each prompt, the share of tokens that our target clearly would not choose.
        other: another engine's name, and the reference for its answers to the same prompts.
    """
    parts = (measured.gamma, len(references) - 1, bool(settings), other is not None)
    comparisons = 2 + sum(parts)
    level = LEVEL / comparisons
    positions = tuple(_positions(references[0], measured.gamma, level))
    found = [*_target(departures, level), *_overall(references[0], level)]
    found += _by_position(positions)
    fits, more = _setting(references[0], settings, tried, measured.gamma, level)
    found += [*more, *_conditions(references, level)]
    if other is not None:
        found += _against_engine(references[0], *other, level)
    return ParityReport(
        address=measured.address,
        title=measured.title,
        head=head,
        target=target,
        gamma=measured.gamma,
        num_prompts=len(references[0].counts),
        num_comparisons=comparisons,
        same_text=sum(each == 0 for each in departures),
        conditions=tuple(_result(each, level) for each in references),
        positions=positions,
        findings=tuple(found),
        fits=fits,
        notes=(*notes, *_draft_note(references[0]), *_sampling_note(references[-1], level)),
    )


def _overall(reference: Reference, level: float) -> Iterator[Finding]:
    low, high = _change(reference.difference(), level)
    if high < 0:
        what = f"The engine's τ is {_less(low, high)} than the reference's."
        yield _finding("lower", low, high, what)
    elif low > 0:
        yield _finding(
            "higher", low, high,
            f"The engine's τ is {_more(low, high)} than the reference's: the engine has better "
            "head settings or another head.",
        )  # fmt: skip


def _positions(reference: Reference, gamma: int, level: float) -> Iterator[PositionResult]:
    for position in range(1, gamma + 1):
        given = _rates(reference, position, position - 1, level)
        per_round = _rates(reference, position, 0, level)
        if given is not None and per_round is not None:
            yield PositionResult(position=position, given=given, per_round=per_round)


def _rates(reference: Reference, position: int, given: int, level: float) -> Rates | None:
    engine = at_position(reference.engine, position, given)
    own = at_position(reference.counts, position, given)
    if engine is None or own is None:
        return None
    low, high = (engine - own).interval(level)
    return Rates(engine=engine.value, reference=own.value, low=low, high=high)


def _by_position(positions: Sequence[PositionResult]) -> Iterator[Finding]:
    """Yield a finding on the first position where acceptance is lower than the reference's."""
    first = next((each for each in positions if each.given.high < 0), None)
    if first is None:
        return
    low, high = first.given.low, first.given.high
    where = f"The difference at position {first.position} is {_span(low, high)}."
    if first.position == 1:
        what = (
            "Acceptance is lower than the reference's from position 1 on. Possible causes: "
            f"{_FROM_THE_START}"
        )
    else:
        what = (
            f"Acceptance is lower than the reference's at position {first.position}; no earlier "
            "position shows a difference. Possible causes: the head continues from another of its "
            "states, or its KV cache is wrong"
        )
        if unclear := [each for each in positions if _may_be_as_low(each, first)]:
            span = _span(unclear[0].given.low, unclear[0].given.high)
            where += (
                f" At position {unclear[0].position}, the difference is {span}, so acceptance may "
                f"be lower there, too. If so, more causes are possible: {_FROM_THE_START}."
            )
    yield _finding("positions", low, high, f"{what}. {where}")


def _may_be_as_low(earlier: PositionResult, first: PositionResult) -> bool:
    """Return whether the acceptance at an earlier position may also be clearly too low.

    The difference at a position is the engine's acceptance rate minus the reference's. The result
    is True if ``earlier`` comes before ``first``, and the interval of the difference at ``earlier``
    reaches below half of the difference at ``first``.
    """
    difference = first.given.engine - first.given.reference
    return earlier.position < first.position and earlier.given.low < difference / 2


def _setting(
    reference: Reference,
    settings: Sequence[SettingCounts],
    tried: int,
    gamma: int,
    level: float,
) -> tuple[str, list[Finding]]:
    """Return the head settings whose counts are nearest to the engine's, and the findings.

    If the settings in the head's files are nearest, there is no finding. If other settings are
    nearest, but not clearly nearer than the settings in the files, return "" and no finding.
    """
    if not settings:
        return "", []
    engine, own = reference.engine, settings[0]
    far = [_distance(engine, each.counts, gamma) for each in settings]
    best = settings[far.index(min(far))]
    if best is own:
        return own.words, []
    level /= max(1, tried - 1)
    if (closer := nearer(engine, own.counts, best.counts, gamma)) is None:
        return "", []
    low, high = closer.interval(level)
    if low <= 0:
        return "", []
    alike = [
        each.words
        for each in settings[1:]
        if each is not best and not _is_worse(engine, each, best, gamma, level)
    ]
    sentence = (
        f"The engine's acceptance fits the setting {best.words} better than the setting in the "
        "head's files. On a scale from −100 % (the counts with the files' setting) to 100 % (the "
        f"counts with {best.words}), the engine's counts are at {_range(low, high)}."
    )
    if alike:
        sentence += f" Other settings that cannot be ruled out: {'; '.join(alike)}."
    return best.words, [_finding("setting", low, high, sentence)]


def _is_worse(
    engine: Sequence[Counts], one: SettingCounts, best: SettingCounts, gamma: int, level: float
) -> bool:
    closer = nearer(engine, one.counts, best.counts, gamma)
    return closer is not None and closer.interval(level)[0] > 0


def _distance(engine: Sequence[Counts], other: Sequence[Counts], gamma: int) -> float:
    return sum(distance(*pair, gamma) for pair in zip(engine, other, strict=True))


def _target(departures: Sequence[float], level: float) -> Iterator[Finding]:
    low, high = share_interval(sum(each > 0 for each in departures), len(departures), level)
    if low > _ROUNDING:
        yield _finding(
            "target", low, high,
            f"At temperature 0, {_range(low, high)} of the engine's texts have tokens that are "
            "clearly not our target's first choice. The engine's target, "
            "quantisation or chat template differs from ours.",
        )  # fmt: skip


def _conditions(references: Sequence[Reference], level: float) -> Iterator[Finding]:
    """Yield a finding for each condition that lowers the engine's acceptance.

    The condition "repeated" (the same prompts again) is compared with "alone" (one request at a
    time). Other conditions are compared with "repeated" or, if it was not measured, with "alone".
    """
    for each in references[1:]:
        condition = each.sample.condition
        base = references[0] if condition == "repeated" else _base(references)
        change = each.difference() - base.grouped(each.members).difference()
        low, high = _change(change, level)
        if high < 0:
            cause = _CAUSES[condition].format(temperature=each.sample.temperature)
            yield _finding("condition", low, high, f"The engine's τ is {_less(low, high)} {cause}.")


def _against_engine(
    reference: Reference, name: str, other: Reference, level: float
) -> Iterator[Finding]:
    low, high = _change(reference.difference() - other.difference(), level)
    if high < 0 or low > 0:
        much = _less(low, high) if high < 0 else _more(low, high)
        yield _finding(
            "engine",
            low,
            high,
            f"Relative to each engine's reference, this engine's τ is {much} than the τ of {name}.",
        )


def _base(references: Sequence[Reference]) -> Reference:
    repeated = [each for each in references if each.sample.condition == "repeated"]
    return repeated[0] if repeated else references[0]


def _result(reference: Reference, level: float) -> ConditionResult:
    change = reference.difference()
    low, high = _change(change, level)
    return ConditionResult(
        condition=reference.sample.condition,
        temperature=reference.sample.temperature,
        engine=total(reference.engine),
        reference=total(reference.counts),
        change=math.expm1(change.value),
        low=low,
        high=high,
    )


def _change(logarithm: Estimate, level: float) -> tuple[float, float]:
    """Return the interval of the relative change of τ, given an estimate of log(ratio of τ)."""
    low, high = logarithm.interval(level)
    return math.expm1(low), math.expm1(high) if high < _LARGEST else math.inf


def _less(low: float, high: float) -> str:
    return f"{_range(-high, -low)} lower"


def _more(low: float, high: float) -> str:
    return f"{_range(low, high)} higher"


def _draft_note(reference: Reference) -> Iterator[str]:
    engine, own = total(reference.engine), total(reference.counts)
    drafted, expected = engine.drafted / engine.drafts, own.drafted / max(1, own.drafts)
    if drafted < (1 - _DIFFERENT_DRAFTS) * expected:
        yield (
            f"The engine drafts {TOKENS.shown(drafted)} candidates per round, the reference "
            f"{TOKENS.shown(expected)}: the engine ends some drafts early, so late positions are "
            "not comparable."
        )


def _sampling_note(reference: Reference, level: float) -> Iterator[str]:
    low, _ = _change(reference.difference(), level)
    if reference.sample.condition == "sampled" and low > 0:
        yield (
            f"At temperature {reference.sample.temperature:g} the engine accepts more than the "
            "reference, which drafts greedily. So the engine samples its drafts, and the reference "
            "does not apply at this temperature."
        )


def _range(low: float, high: float) -> str:
    ends = PERCENT.shown(low), PERCENT.shown(high)
    return ends[0] if ends[0] == ends[1] else PERCENT.between(low, high)


def _span(low: float, high: float) -> str:
    return f"{PROBABILITY.signed(low)} to {PROBABILITY.signed(high)}"


def _finding(kind: FindingKind, low: float, high: float, sentence: str) -> Finding:
    return Finding(kind=kind, sentence=sentence, low=low, high=high)

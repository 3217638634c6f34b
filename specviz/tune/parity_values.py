"""Values that compare a serving engine's acceptance with ours along the same texts.

``servers/acceptance.py`` measures the engine, ``tune/parity.py`` computes the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from specviz.record.numbers import PERCENT, TOKENS
from specviz.values import Value

Condition = Literal["alone", "repeated", "concurrent", "sampled"]
FindingKind = Literal["lower", "higher", "positions", "setting", "target", "condition", "engine"]


class Counts(Value):
    """How many rounds had candidates, and how many candidates were drafted and accepted."""

    drafts: int
    drafted: int
    accepted_at: tuple[int, ...]

    @property
    def accepted(self) -> int:
        return sum(self.accepted_at)

    @property
    def tau(self) -> float:
        """Return the tokens per round, with the recovered or bonus token."""
        return 1 + self.accepted / max(1, self.drafts)

    def padded(self, gamma: int) -> tuple[int, ...]:
        """Return the accepted candidates by position, for exactly ``gamma`` positions."""
        return (*self.accepted_at, *[0] * gamma)[:gamma]


def total(counts: Sequence[Counts]) -> Counts:
    most = max((len(each.accepted_at) for each in counts), default=0)
    rows = [each.padded(most) for each in counts]
    return Counts(
        drafts=sum(each.drafts for each in counts),
        drafted=sum(each.drafted for each in counts),
        accepted_at=tuple(map(sum, zip(*rows, strict=True))),
    )


class EngineText(Value):
    """The engine's answer to prompt ``number``; no ``token_ids`` if the engine reports none."""

    number: int
    prompt: str
    text: str
    token_ids: tuple[int, ...]
    tokens: int  # as the engine counts them
    prompt_tokens: int | None


class Unit(Value):
    """Answers that the engine wrote simultaneously, and how much its counters grew meanwhile."""

    texts: tuple[EngineText, ...]
    counts: Counts


class Sample(Value):
    """All answers under one condition, such as one request at a time."""

    condition: Condition
    temperature: float
    units: tuple[Unit, ...]


class EngineMeasurement(Value):
    """The acceptance of the engine at one address, measured from its counters."""

    address: str
    title: str  # the engine and its version
    gamma: int  # candidates per round
    chat: bool
    max_new_tokens: int
    samples: tuple[Sample, ...]  # the first is "alone"


class Finding(Value):
    """A difference whose interval excludes 0, described by a sentence."""

    kind: FindingKind
    sentence: str
    low: float
    high: float


class ConditionResult(Value):
    """Acceptance under one condition.

    ``change``: the engine's τ divided by the reference's, minus 1. ``low`` and ``high``: the ends
    of the interval of ``change``.
    """

    condition: Condition
    temperature: float
    engine: Counts
    reference: Counts
    change: float
    low: float
    high: float

    @property
    def words(self) -> str:
        return condition_words(self.condition, self.temperature)

    @property
    def interval_words(self) -> str:
        low, high = (PERCENT.signed(each).strip() for each in (self.low, self.high))
        return f"{low} to {high}"


class Rates(Value):
    """An acceptance rate of the engine, and the reference for this rate.

    ``low`` and ``high``: the ends of the interval of the difference, engine minus reference.
    """

    engine: float
    reference: float
    low: float
    high: float


class PositionResult(Value):
    """Acceptance of the candidates at one position of the rounds.

    ``given``: over rounds that accepted all earlier candidates. ``per_round``: over all rounds.
    """

    position: int
    given: Rates
    per_round: Rates


class ParityReport(Value):
    """The engine's acceptance, the reference, and the findings on where they differ."""

    address: str
    title: str
    head: str
    target: str
    gamma: int
    num_prompts: int
    num_comparisons: int  # for which the intervals are corrected
    same_text: int  # answers at temperature 0 that follow our target
    conditions: tuple[ConditionResult, ...]
    positions: tuple[PositionResult, ...]
    findings: tuple[Finding, ...]
    fits: str = ""  # the settings that fit the engine's counts best; "" if not compared
    notes: tuple[str, ...] = ()

    @property
    def lower(self) -> bool:
        """Whether any finding shows that the engine accepts less than the reference."""
        return any(each.kind in ("lower", "positions", "condition") for each in self.findings)


def condition_words(condition: Condition, temperature: float) -> str:
    return {
        "alone": "one request at a time",
        "repeated": "the same prompt again",
        "concurrent": "several requests at once",
        "sampled": f"temperature {temperature:g}",
    }[condition]


def parity_verdict(report: ParityReport) -> str:
    """Return a sentence on whether the engine's acceptance differs from the reference."""
    alone = report.conditions[0]
    kinds = {each.kind for each in report.findings} - {"engine"}
    engine, reference = TOKENS.shown(alone.engine.tau), TOKENS.shown(alone.reference.tau)
    figures = f"{engine} tokens per round, the reference {reference}"
    if kinds & {"lower", "positions"}:
        return f"The engine accepts less than the reference: {figures}."
    if "condition" in kinds:
        return (
            f"The engine accepts less under some conditions. With one request at a time: {figures}."
        )
    if kinds:
        return f"The engine differs from the reference: {figures}."
    return f"No difference shown: {figures}."

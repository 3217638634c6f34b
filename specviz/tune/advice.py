"""Sentences about an ``Answer``: which settings to use, why, and what a better draft would gain."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.figures.speedup_words import UNCERTAIN, is_open, is_too_wide, is_wide, shown_speedup
from specviz.figures.step_times import StepTimes
from specviz.record.numbers import COST, PROBABILITY, RATIO, SIZE, STEPS, TOKENS, counted
from specviz.theory.speed import break_even_alpha
from specviz.tune.answer import Answer, Candidate, gain_from_acceptance, gain_from_speed
from specviz.tune.measuring import MeasuredCell
from specviz.tune.methods import method_text
from specviz.tune.surface import Cell

ON_SIMILAR_TEXTS, ON_THIS_TEXT = "on texts like these", "along this text alone"
FOREIGN_TEXT_NOTE = (
    "This text was not written by the target with these sampling settings. So the acceptance "
    "probabilities apply to this text, not to texts that the target writes."
)


def advice(answer: Answer) -> str:
    """Return one sentence on the best settings and one on what a better draft would gain."""
    if answer.best is None:
        return _nothing_yet(answer)
    candidate, cell = answer.best
    if is_too_wide(cell.low, cell.high) and cell.basis != "at least":
        parts = [_uncertain(answer, candidate, cell), _width(answer, cell)]
    else:
        gains = _gains(candidate, cell.temperature)
        parts = [_verdict(answer, candidate, cell), _width(answer, cell), gains]
    return " ".join(part for part in parts if part)


def confirmation(answer: Answer, measured: Sequence[MeasuredCell]) -> str:
    """Return sentences that compare the measured with the expected speedup of the best settings.

    Return "" if these settings were not measured.
    """
    if answer.best is None:
        return ""
    candidate, best = answer.best
    place = (candidate.label, best.gamma, best.temperature)
    own = [each for each in measured if (each.label, each.gamma, each.temperature) == place]
    found = next((each for each in own if each.speedup), None)
    if found is None or found.speedup is None:
        return ""
    span = shown_speedup(found.speedup, found.low, found.high, UNCERTAIN)
    text = f"In {counted(found.count, 'run')} with this setting: {span}"
    low, high = _ends(found)
    expected_low, expected_high = _ends(best)
    if is_too_wide(found.low, found.high):
        return f"{text}."
    if high < expected_low:
        text += ", less than expected"
    elif low > expected_high:
        text += ", more than expected"
    rivals = [each for each in measured if each.temperature == best.temperature]
    first = max(rivals, key=lambda each: _ends(each)[0])
    if _ends(first)[0] > high:
        text += f". {first.label} with γ {first.gamma} was faster"
    return f"{text}."


def _ends(cell: Cell | MeasuredCell) -> tuple[float, float]:
    """Return the ends of a speedup's interval; without an interval, both ends are the speedup."""
    value = cell.speedup or 0.0
    low, high = (value if end is None else end for end in (cell.low, cell.high))
    return low, high


def _width(answer: Answer, cell: Cell) -> str:
    """Return why the interval is wide, and how to narrow it; "" if the interval is narrow."""
    if cell.from_texts is None or not is_wide(cell.low, cell.high):
        return ""
    if cell.from_texts < 0.5:
        return (
            "The interval is wide mainly because the step costs are uncertain. Further runs of "
            "this pair on an idle machine make the step costs more precise."
        )
    if answer.question.text is not None:
        more = "a longer text"
    elif answer.question.grows:
        more = "more time for continuations"
    elif answer.temperature == 0 and len(answer.question.items) == 1:
        return (
            "The interval is wide mainly because a prompt gives only one text at temperature 0. "
            "More prompts would make the interval narrower."
        )
    else:
        more = "more prompts or longer texts"
    return f"The texts are the main reason for the wide interval: {more} would make it narrower."


def reason(candidate: Candidate, cell: Cell) -> str:
    """Return what explains a candidate's rank: acceptance, tokens per round and step costs."""
    times, alpha = candidate.costs_of(cell), candidate.alpha(cell.temperature)
    reasons: list[str] = []
    if alpha is not None:
        even = None if times is None else _break_even(candidate, cell, times)
        beside = "" if even is None else f" (break-even at {PROBABILITY.bare(even)})"
        reasons.append(f"acceptance probability {PROBABILITY.bare(alpha)}{beside}")
    least = "at least " if cell.basis == "at least" else ""
    reasons.append(f"{least}{TOKENS.bare(cell.tau)} tokens per round")
    if times is not None and times.c is not None and times.v is not None:
        verifying = f"verification {STEPS.bare(times.v)} target steps"
        if times.c:
            reasons.append(f"a draft step costs {COST.bare(times.c)}, {verifying}")
        elif cell.basis == "expected" and cell.speedup:
            mean = f"a round costs {STEPS.bare(cell.tau / cell.speedup)} target steps on average"
            reasons.append(
                f"{mean} and {STEPS.bare(times.v)} if it drafts {counted(cell.gamma, 'candidate')}"
            )
        else:
            reasons.append(verifying)
    return "; ".join(reasons)


def _break_even(candidate: Candidate, cell: Cell, times: StepTimes) -> float | None:
    """Return the α above which the settings are faster than the target alone.

    Return None if no α is high enough, or if α does not determine the tokens per round.
    """
    if times.round_cost is None or not candidate.config.has_ideal:
        return None
    return break_even_alpha(0.0, times.round_cost, gamma=cell.gamma)


def speedup_text(cell: Cell) -> str:
    """Return the speedup at one γ and temperature, with its interval, as text."""
    if cell.speedup is None:
        return f"{TOKENS.bare(cell.tau)} tokens per round; the speedup needs step costs"
    least = "at least " if cell.basis == "at least" else ""
    return least + shown_speedup(cell.speedup, cell.low, cell.high, UNCERTAIN)


def basis_text(candidate: Candidate, cell: Cell) -> str:
    """Return whether a speedup is expected, a lower bound or measured, and from which data."""
    texts = counted(cell.num_texts, "text")
    own = candidate.config.rule == "lossless"
    costs = "" if own else ", with the step costs of token-by-token verification"
    if cell.basis == "expected":
        return f"expected along {texts}{costs}"
    if cell.basis == "at least":
        return (
            f"lower bound: token-by-token acceptance along {texts}{costs}; this method accepts at "
            "least as many candidates on average"
        )
    runs = f"measured in {counted(cell.num_runs, 'short run')}"
    if candidate.form == "exact":
        return f"{runs}; tokens per round expected along {texts}"
    return f"{runs}, including tokens per round"


def unranked_text(answer: Answer) -> str:
    """Return sentences about the candidates without a speed, or "" if there are none."""
    names = [each.label for each in answer.without_speed]
    if not names or not answer.complete:
        return ""
    speeds = "their speeds" if len(names) > 1 else "its speed"
    return (
        f"Not ranked: {' and '.join(names)}. Neither step costs nor short runs give {speeds} here."
    )


def _nothing_yet(answer: Answer) -> str:
    if answer.impossible:
        return "The target cannot write this text with these sampling settings."
    if any(each.surface.cells for each in answer.candidates):
        return "Acceptance is known. The speedups need step costs, which are still missing."
    if not answer.complete:
        return "The texts are still being written and scored."
    return "No text is long enough for a whole round."


def _verdict(answer: Answer, candidate: Candidate, cell: Cell) -> str:
    assert cell.speedup is not None
    low, high = (cell.speedup if end is None else end for end in (cell.low, cell.high))
    span = RATIO.bare(low) if low == high else f"{RATIO.bare(low)} to {RATIO.bare(high)}"
    what = _setting(answer, candidate, cell)
    at = f"at temperature {cell.temperature:g}"
    where = ON_SIMILAR_TEXTS if answer.question.text is None else ON_THIS_TEXT
    if cell.basis == "measured":
        where = f"in {counted(cell.num_runs, 'short run')} {where}"
    alone = f"the speed of the target alone {where}"
    if cell.basis == "at least":
        bound = RATIO.bare(low) if is_too_wide(low, high) else span
        return _at_least(f"{bound} times {alone}", what, at, low=low)
    if high < 1:
        return (
            f"Do not speculate {at}: even the best settings, {what}, give only {span} times "
            f"{alone}."
        )
    if is_open(low, high):
        return (
            f"Whether speculation pays {at} is too close to call: the best settings, {what}, give "
            f"{span} times {alone}."
        )
    if low <= 1:
        return (
            f"Speculation makes no difference {at}: the best settings, {what}, give {span} times "
            f"{alone}."
        )
    fast = f"{span} times the target's speed {where}, {at}."
    if answer.question.text is not None:
        return f"Expected with {what}: {fast}"
    return f"Use {what}: {fast}"


def _uncertain(answer: Answer, candidate: Candidate, cell: Cell) -> str:
    """Return the verdict on a speedup that is not shown because its interval is too wide."""
    assert cell.low is not None
    assert cell.high is not None
    best = f"the best settings so far are {_setting(answer, candidate, cell)}"
    at = f"at temperature {cell.temperature:g}"
    if cell.low <= 1 <= cell.high:
        most = (
            f" With {TOKENS.bare(cell.tau)} tokens per round, these settings reach at most "
            f"{RATIO.bare(cell.tau)} times the speed of the target alone, on any machine."
        )
        return f"Whether speculation pays {at} is {UNCERTAIN}: {best}.{most}"
    pays = "pays" if cell.low > 1 else "does not pay"
    return f"Speculation {pays} {at}, but the factor is {UNCERTAIN}: {best}."


def _at_least(bound: str, what: str, at: str, *, low: float) -> str:
    """Return the verdict on a speedup that is known only as a lower bound."""
    if low > 1:
        return f"Use {what}: at least {bound}, {at}."
    return (
        f"It is not known whether speculation pays {at}: the best settings, {what}, give at least "
        f"{bound}."
    )


def _setting(answer: Answer, candidate: Candidate, cell: Cell) -> str:
    """Return the draft, the method and, unless the method is a tree, γ as text."""
    config, method = candidate.config, method_text(candidate.config)
    text = method
    if config.draft_method.needs_draft:
        text = f"{_draft(answer, candidate)}{', ' if method else ''}{method}"
    if config.branching:
        return text
    return f"{text}{',' if ', ' in text else ''} with γ {cell.gamma}"


def _draft(answer: Answer, candidate: Candidate) -> str:
    own = [each for each in answer.question.lanes if each.config.draft_method.needs_draft]
    same = all(each.spec == candidate.lane.spec for each in own)
    return "this draft" if same else candidate.label


def _gains(candidate: Candidate, temperature: float) -> str:
    faster = gain_from_speed(candidate, temperature)
    accepted = gain_from_acceptance(candidate, temperature)
    if faster is None:
        return ""
    text = f"A draft twice as fast would change the speedup by {faster:+.2f}"
    if accepted is not None:
        text += f"; 10 percentage points more acceptance would change it by {accepted:+.2f}"
    return f"{text}."


def memory_text(candidate: Candidate) -> str:
    return SIZE.shown(candidate.memory_bytes)

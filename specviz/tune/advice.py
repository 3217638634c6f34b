"""An answer in sentences: what to use, why, and what another draft would be worth."""

from __future__ import annotations

from specviz.figures.speedup_words import is_open
from specviz.record.numbers import COST, PROBABILITY, RATIO, SIZE, STEPS, TOKENS
from specviz.tune.answer import Answer, Candidate, worth_of_acceptance, worth_of_speed
from specviz.tune.methods import method_text
from specviz.tune.surface import Cell

LIKE_THESE, ALONG_THIS = "on texts like these", "along this text alone"
NOT_ITS_OWN = (
    "These are not the target's words under this law: odds are of this text, not of a run."
)


def advice(answer: Answer) -> str:
    """One sentence with its grounds, and one of what would be worth more."""
    if answer.best is None:
        return _nothing_yet(answer)
    candidate, cell = answer.best
    parts = [_verdict(answer, candidate, cell), _worths(candidate, cell.temperature)]
    return " ".join(part for part in parts if part)


def reason(candidate: Candidate, cell: Cell) -> str:
    """Why a candidate stands where it does."""
    times, alpha = candidate.costs_of(cell), candidate.alpha(cell.temperature)
    told = [] if alpha is None else [f"accepted with odds of {PROBABILITY.bare(alpha)}"]
    least = "at least " if cell.basis == "at least" else ""
    told.append(f"{least}{TOKENS.bare(cell.tau)} tokens a round")
    if times is not None and times.c is not None and times.v is not None:
        drafting = "drafting is free" if not times.c else f"a draft step costs {COST.bare(times.c)}"
        told.append(f"{drafting}, checking {STEPS.bare(times.v)} target steps")
    return "; ".join(told)


def cell_words(cell: Cell) -> str:
    """Its speedup with the interval."""
    if cell.speedup is None:
        return f"{TOKENS.bare(cell.tau)} tokens a round; no speedup without step costs"
    least = "at least " if cell.basis == "at least" else ""
    return least + RATIO.spread(cell.speedup, cell.low, cell.high)


def how_found(candidate: Candidate, cell: Cell) -> str:
    """How its numbers came about."""
    texts = _counted(cell.num_texts, "text")
    costs = "" if candidate.config.rule == "lossless" else ", at the step costs of token by token"
    if cell.basis == "expected":
        return f"expected along {texts}{costs}"
    if cell.basis == "at least":
        return f"a bound: as token by token along {texts}{costs}; in the mean never fewer stand"
    runs = f"measured in {_counted(cell.num_runs, 'short run')}"
    if candidate.form == "exact":
        return f"{runs}; tokens a round as expected along {texts}"
    return f"{runs}, tokens a round too"


def unknown_words(answer: Answer) -> str:
    """Of candidates without a speed, and why; empty if there are none."""
    names = [each.label for each in answer.without_speed]
    if not names or not answer.complete:
        return ""
    several = len(names) > 1
    return (
        f"Not ranked: {' and '.join(names)}. Neither costs of steps nor runs tell "
        f"{'their speeds' if several else 'its speed'} here."
    )


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'s' * (count != 1)}"


def _nothing_yet(answer: Answer) -> str:
    if answer.impossible:
        return "This text is impossible under this law: the target never writes it."
    planned = answer.question.num_texts
    if any(len(each.texts) < planned for each in answer.candidates) or not answer.candidates:
        return "The texts are being written and scored."
    if any(each.surface.cells for each in answer.candidates):
        return "The acceptance is known; the step costs, and so the speedups, are still missing."
    return "No text is long enough for a whole round."


def _verdict(answer: Answer, candidate: Candidate, cell: Cell) -> str:
    assert cell.speedup is not None
    low, high = (cell.speedup if end is None else end for end in (cell.low, cell.high))
    span = RATIO.bare(low) if low == high else f"{RATIO.bare(low)} to {RATIO.bare(high)}"
    what = _setting(answer, candidate, cell)
    at = f"at temperature {cell.temperature:g}"
    where = LIKE_THESE if answer.question.text is None else ALONG_THIS
    if cell.basis == "at least":
        return _at_least(f"{span} times the speed of the target alone {where}", what, at, low=low)
    if cell.basis == "measured":
        where = f"in {_counted(cell.num_runs, 'short run')} {where}"
    if high < 1:
        return (
            f"Do not speculate {at}: even the best setting, {what}, gives only {span} times the "
            f"speed of the target alone {where}."
        )
    if is_open(low, high):
        return (
            f"Whether speculation pays {at} is too close to call: the best setting, {what}, gives "
            f"{span} times the speed of the target alone {where}."
        )
    if low <= 1:
        return (
            f"Speculation makes no difference {at}: the best setting, {what}, gives {span} times "
            f"the speed of the target alone {where}."
        )
    fast = f"{span} times the target's speed {where}, {at}."
    if answer.question.text is not None:
        return f"Expected of {what}: {fast}"
    return f"Use {what}: {fast}"


def _at_least(bound: str, what: str, at: str, *, low: float) -> str:
    """Of a speed that has only a lower bound."""
    if low > 1:
        return f"Use {what}: at least {bound}, {at}."
    return (
        f"Whether speculation pays {at} is not known: the best setting, {what}, gives at least "
        f"{bound}."
    )


def _setting(answer: Answer, candidate: Candidate, cell: Cell) -> str:
    """Who drafts, which way, with how many candidates; a tree says that itself."""
    config, way = candidate.config, method_text(candidate.config)
    told = way
    if config.draft_method.needs_draft:
        told = f"{_draft(answer, candidate)}{', ' if way else ''}{way}"
    if config.branching:
        return told
    return f"{told}{',' if ', ' in told else ''} with γ {cell.gamma}"


def _draft(answer: Answer, candidate: Candidate) -> str:
    own = [each for each in answer.question.lanes if each.config.draft_method.needs_draft]
    same = all(each.spec == candidate.lane.spec for each in own)
    return "this draft" if same else candidate.label


def _worths(candidate: Candidate, temperature: float) -> str:
    quicker = worth_of_speed(candidate, temperature)
    accepted = worth_of_acceptance(candidate, temperature)
    if quicker is None:
        return ""
    told = f"A draft twice as fast would be worth {quicker:+.2f}"
    if accepted is not None:
        told += f", one accepted 0.1 more often {accepted:+.2f}"
    return f"{told}."


def memory_words(candidate: Candidate) -> str:
    return SIZE.shown(candidate.memory_bytes)

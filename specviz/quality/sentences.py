"""Sentences on an experiment's result: one for each comparison that has an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.figures.paired import Ratio
from specviz.quality.experiment import CONTROL
from specviz.quality.scorers import PREFERRED
from specviz.quality.win_rates import FEW_PROMPTS, WinRate
from specviz.record.numbers import PERCENT, PROBABILITY, RATIO, UNKNOWN

if TYPE_CHECKING:
    from specviz.quality.report import ContestResult, QualityReport, RuleResult


def sentences(report: QualityReport) -> tuple[str, ...]:
    """Return the findings: one sentence for each comparison that has an interval."""
    return (*rule_sentences(report), *other_sentences(report))


def rule_sentences(report: QualityReport) -> tuple[str, ...]:
    """Return a sentence for each lossy rule: its speed, and its win rate or mean bias."""
    rules = report.rules[CONTROL + 1 :]
    if report.measure == "distance":
        return tuple(_bias_sentence(each) for each in rules if _has_interval(each.bias))
    preferred = PREFERRED[report.measure]
    return tuple(_rule_sentence(each, preferred) for each in rules if _has_interval(each.won))


def other_sentences(report: QualityReport) -> tuple[str, ...]:
    """Return the sentences on variants of over-acceptance, on the control, and on the scorer."""
    preferred = PREFERRED[report.measure]
    return (
        *(
            _opt_sentence(each, report, preferred)
            for each in report.opt_against_uno
            if _has_interval(each.won)
        ),
        *_control_sentence(report),
        *_judge_sentences(report),
        *_few_prompts(report),
        *_caveat(report),
    )


def _has_interval(found: WinRate | Ratio | None) -> bool:
    return found is not None and found.low is not None


def _rule_sentence(each: RuleResult, preferred: str) -> str:
    return (
        f"{each.label}: {_speed(each)}its texts {preferred} {_in_words(each.won)} of comparisons "
        f"against lossless{_if_open(each.won)}."
    )


def _bias_sentence(each: RuleResult) -> str:
    return f"{each.label}: {_speed(each)}the mean bias of its tokens is {_bias_words(each.bias)}."


def _speed(each: RuleResult) -> str:
    over = each.over_lossless
    if over is None or over.low is None or over.high is None:
        return ""
    span = f"{RATIO.bare(over.low)} to {RATIO.bare(over.high)}"
    if not over.differs:
        return f"no difference in speed from lossless is detected ({span} times as fast), and "
    return f"the rule is {RATIO.bare(over.value)} times as fast as lossless ({span}), and "


def _bias_words(bias: Ratio | None) -> str:
    if bias is None or bias.low is None or bias.high is None:
        return UNKNOWN
    span = f"{PROBABILITY.bare(bias.low)} to {PROBABILITY.bare(bias.high)}"
    return f"{PROBABILITY.shown(bias.value)} ({span})".replace("-", "−")


def _opt_sentence(each: ContestResult, report: QualityReport, preferred: str) -> str:
    said = (
        f"ε {each.contest.epsilon:g}: texts of OPT {preferred} {_in_words(each.won)} of "
        f"comparisons with UNO{_if_open(each.won)}."
    )
    lanes = report.rules[each.contest.first], report.rules[each.contest.second]
    biases = [lane.bias.value if lane.bias else None for lane in lanes]
    if each.bias is None or each.bias.low is None or each.bias.high is None:
        return said
    open_ = ", so no difference is detected" if each.bias.low <= 0 <= each.bias.high else ""
    return (
        f"{said} The mean bias of a token is "
        f"{' with OPT and '.join(map(PROBABILITY.shown, biases))} with UNO. "
        f"The difference is {_bias_words(each.bias)}{open_}."
    )


def _if_open(won: WinRate | None) -> str:
    return "" if won is not None and won.differs else ": no difference is detected"


def _control_sentence(report: QualityReport) -> tuple[str, ...]:
    won = report.control.won if report.control else None
    if won is None or won.low is None:
        return ()
    text = f"Control, lossless against lossless with other seeds: {_in_words(won)}"
    if won.differs:
        return (f"{text}. This interval excludes 50 %, as happens by chance in 5 % of controls.",)
    return (f"{text}. The interval includes 50 %, as expected.",)


def _judge_sentences(report: QualityReport) -> tuple[str, ...]:
    bias, found = report.judge, list[str]()
    if bias is None:
        return ()
    if bias.failed:
        found.append(
            f"{bias.failed} questions to the judge failed; their pairs are left out. The last "
            f"failure: {bias.failure}"
        )
    if not bias.replies:
        return tuple(found)
    if bias.unclear:
        share = PERCENT.shown(bias.unclear / bias.replies)
        found.append(
            f"{share} of the judge's replies made no clear choice; their pairs are left out."
        )
    if bias.first_place is not None:
        found.append(
            f"The judge chose the answer shown first in {PERCENT.shown(bias.first_place)} of its "
            "choices. Every pair was shown in both orders, so a preference for the first answer "
            "causes ties, not wins."
        )
    if bias.longer is not None:
        found.append(
            f"The judge chose the longer answer in {PERCENT.shown(bias.longer)} of its choices."
        )
    return tuple(found)


def _few_prompts(report: QualityReport) -> tuple[str, ...]:
    if report.prompts >= FEW_PROMPTS:
        return ()
    return (
        f"With {report.prompts} prompts, the intervals are hardly reliable: give at least forty "
        "prompts.",
    )


def _caveat(report: QualityReport) -> tuple[str, ...]:
    if report.measure != "likelihood":
        return ()
    return (
        "A higher likelihood is not a better text: the likelihood is highest for predictable, "
        "repetitive texts. A shift in either direction shows that the rule changes the texts.",
    )


def _in_words(won: WinRate | None) -> str:
    if won is None or won.low is None or won.high is None:
        return UNKNOWN
    return f"{PERCENT.shown(won.value)} ({PERCENT.bare(won.low)} to {PERCENT.bare(won.high)})"

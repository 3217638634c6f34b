"""The result of an experiment: speed, bias and win rates of every rule, and sentences on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from specviz.comparison.lane_results import log_speeds
from specviz.comparison.lane_run import LaneRun
from specviz.figures.paired import Ratio, ratio
from specviz.quality.experiment import CONTROL, LOSSLESS, Contest, Experiment
from specviz.quality.judge import JudgeBias
from specviz.quality.scorers import PREFERRED, Measure, recorded_distance
from specviz.quality.win_rates import Outcomes, WinRate, win_rate
from specviz.record.numbers import PERCENT, PROBABILITY, RATIO, UNKNOWN
from specviz.values import Value


class RuleResult(Value):
    """The texts of one lane.

    ``over_lossless``: its tokens per second over those of the lossless lane. ``rejected``: share of
    the tested candidates. ``distance``: mean bias of a token. ``score``: mean score of a text, None
    with a judge. ``won``: its win rate against lossless.
    """

    label: str
    rule: str
    epsilon: float
    residual: str
    texts: int
    over_lossless: Ratio | None
    rejected: float | None
    distance: float | None
    score: float | None
    won: WinRate | None


class ContestResult(Value):
    contest: Contest
    won: WinRate | None


class QualityReport(Value):
    """All results; ``scorer`` names the model or address behind the measure."""

    measure: Measure
    scorer: str
    rules: tuple[RuleResult, ...]
    contests: tuple[ContestResult, ...]
    judge: JudgeBias | None = None

    @property
    def control(self) -> ContestResult:
        return self.contests[0]

    @property
    def opt_against_uno(self) -> tuple[ContestResult, ...]:
        return tuple(each for each in self.contests if each.contest.second > CONTROL)


def make_report(
    experiment: Experiment,
    runs: Sequence[LaneRun],
    measure: Measure,
    scorer: str,
    compare: Callable[[Contest], Outcomes],
    scores: Mapping[tuple[int, int, int], float],
    judge: JudgeBias | None = None,
) -> QualityReport:
    """Return the report.

    Args:
        runs: The finished runs of the experiment's plan.
        compare: Returns the outcomes of a contest.
        scores: The scores by the key of the run; empty with a judge.
    """
    contests = tuple(
        ContestResult(contest=each, won=win_rate(compare(each))) for each in experiment.contests
    )
    against = {each.contest.first: each.won for each in contests if each.contest.second == LOSSLESS}
    lanes = experiment.plan.lanes
    by_lane = [[run for run in runs if run.job.lane == at] for at in range(len(lanes))]
    speeds = log_speeds(by_lane)
    rules = list[RuleResult]()
    for at, (lane, own) in enumerate(zip(lanes, by_lane, strict=True)):
        distances = [recorded_distance(run.trace) for run in own]
        rules.append(
            RuleResult(
                label=lane.name,
                rule=lane.config.rule,
                epsilon=lane.config.epsilon,
                residual=lane.config.residual,
                texts=len(own),
                over_lossless=ratio(speeds[at], speeds[LOSSLESS]) if at > CONTROL else None,
                rejected=_rejected(own),
                distance=_mean(each for each in distances if each is not None),
                score=_mean(scores[run.job.key] for run in own if run.job.key in scores),
                won=against.get(at),
            )
        )
    return QualityReport(
        measure=measure, scorer=scorer, rules=tuple(rules), contests=contests, judge=judge
    )


def _rejected(runs: Sequence[LaneRun]) -> float | None:
    return _mean(
        float(candidate.verdict == "rejected")
        for run in runs
        for entry in run.trace.rounds
        for candidate in entry.candidates
        if candidate.tested
    )


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


# Sentences


def sentences(report: QualityReport) -> tuple[str, ...]:
    """Return what was found: one sentence for each comparison that has an interval."""
    return (*rule_sentences(report), *other_sentences(report))


def rule_sentences(report: QualityReport) -> tuple[str, ...]:
    """Return a sentence for each lossy rule: its speed, and its texts against lossless ones."""
    rules = (each for each in report.rules[CONTROL + 1 :] if _has_interval(each.won))
    return tuple(_rule_sentence(each, PREFERRED[report.measure]) for each in rules)


def other_sentences(report: QualityReport) -> tuple[str, ...]:
    """Return the sentences on OPT against UNO, on the control, and on the scorer itself."""
    preferred = PREFERRED[report.measure]
    return (
        *(
            _opt_sentence(each, report, preferred)
            for each in report.opt_against_uno
            if _has_interval(each.won)
        ),
        *_control_sentence(report),
        *_judge_sentences(report),
        *_caveat(report),
    )


def _has_interval(won: WinRate | None) -> bool:
    return won is not None and won.low is not None


def _rule_sentence(each: RuleResult, preferred: str) -> str:
    over, speed = each.over_lossless, ""
    if over is not None and over.low is not None and over.high is not None:
        span = f"{RATIO.bare(over.low)} to {RATIO.bare(over.high)}"
        speed = f"{RATIO.bare(over.value)} times as fast as lossless ({span}), and "
    return (
        f"{each.label}: {speed}its texts {preferred} {_in_words(each.won)} of comparisons against "
        f"lossless{_if_open(each.won)}."
    )


def _opt_sentence(each: ContestResult, report: QualityReport, preferred: str) -> str:
    lanes = report.rules[each.contest.first], report.rules[each.contest.second]
    biases = " against ".join(PROBABILITY.shown(lane.distance) for lane in lanes)
    return (
        f"ε {each.contest.epsilon:g}: texts of OPT {preferred} {_in_words(each.won)} of "
        f"comparisons with UNO{_if_open(each.won)}. The mean bias of a token is {biases}, each "
        "along its own texts."
    )


def _if_open(won: WinRate | None) -> str:
    return "" if won is not None and won.differs else ": no difference is shown"


def _control_sentence(report: QualityReport) -> tuple[str, ...]:
    won = report.control.won
    if won is None or won.low is None:
        return ()
    text = f"Control, lossless against lossless with other seeds: {_in_words(won)}"
    if won.differs:
        return (f"{text}. This interval excludes 50 %, as 5 % of controls do by chance.",)
    return (f"{text}. The interval includes 50 %, as expected.",)


def _judge_sentences(report: QualityReport) -> tuple[str, ...]:
    bias, found = report.judge, list[str]()
    if bias is None or not bias.replies:
        return ()
    if bias.unclear:
        share = PERCENT.shown(bias.unclear / bias.replies)
        found.append(
            f"{share} of the judge's replies made no clear choice; these pairs are left out."
        )
    if bias.first_place is not None:
        found.append(
            f"The judge chose the answer shown first in {PERCENT.shown(bias.first_place)} of its "
            "choices. Every pair was shown in both orders, so this makes ties, not wins."
        )
    if bias.longer is not None:
        found.append(f"It chose the longer answer in {PERCENT.shown(bias.longer)} of its choices.")
    return tuple(found)


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


# JSON


def report_to_json(report: QualityReport, experiment: Experiment) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "kind": "win rates",
        "schema": 1,
        "measure": report.measure,
        "scorer": report.scorer,
        "prompts": len(experiment.items),
        "texts_per_prompt": experiment.texts,
        "settings": asdict(experiment.config),
        "rules": [asdict(each) for each in report.rules],
        "contests": [
            {**asdict(each.contest), "win_rate": each.won and asdict(each.won)}
            for each in report.contests
        ],
        "judge": report.judge and asdict(report.judge),
        "sentences": list(sentences(report)),
    }


# Text


def table_rows(report: QualityReport) -> list[tuple[str, ...]]:
    """Return the header and a row for each rule, as text."""
    rows: list[tuple[str, ...]] = [
        ("rule", "speed over lossless", "rejected", "bias", "score", "wins against lossless")
    ]
    for each in report.rules:
        speed = each.over_lossless
        rows.append(
            (
                each.label,
                _ratio(speed),
                PERCENT.shown(each.rejected),
                PROBABILITY.shown(each.distance),
                UNKNOWN if each.score is None else f"{each.score:.3f}",
                _share(each.won),
            )
        )
    return rows


def _share(won: WinRate | None) -> str:
    return UNKNOWN if won is None else PERCENT.spread(won.value, won.low, won.high)


def _ratio(speed: Ratio | None) -> str:
    return UNKNOWN if speed is None else RATIO.spread(speed.value, speed.low, speed.high)

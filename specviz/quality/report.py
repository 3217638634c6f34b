"""The result of an experiment: speed, bias and win rates of every rule, and sentences on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from specviz.comparison.lane_results import log_speeds
from specviz.comparison.lane_run import LaneRun
from specviz.figures.paired import Ratio, mean_of, ratio
from specviz.quality.experiment import CONTROL, LOSSLESS, Contest, Experiment
from specviz.quality.judge import JudgeBias
from specviz.quality.scorers import Measure, recorded_distance
from specviz.quality.sentences import sentences
from specviz.quality.win_rates import Outcomes, WinRate, win_rate
from specviz.record.numbers import PERCENT, PROBABILITY, RATIO, UNKNOWN
from specviz.record.token_text import text_without_end
from specviz.values import Value

# The column of scores, by measure. The score of *distance* is minus the bias, a judge gives none.
_SCORES: dict[Measure, str] = {
    "likelihood": "log-likelihood (nats per token)",
    "reward": "reward",
}


class RuleResult(Value):
    """The results of one rule with its settings (a lane).

    ``over_lossless``: tokens per second, divided by the lossless lane's tokens per second.
    ``rejected``: the share of tested candidates that were rejected. ``bias``: the mean total
    variation distance between the rule's and the target's next-token distributions. ``score``: the
    mean score of a text, None with a judge. ``won``: the win rate against lossless texts; None
        with the measure *distance*, because lossless texts then always win.
    """

    label: str
    rule: str
    epsilon: float
    residual: str
    texts: int
    over_lossless: Ratio | None
    rejected: float | None
    bias: Ratio | None
    score: float | None
    won: WinRate | None


class ContestResult(Value):
    """The result of comparing the texts of two rules.

    ``bias``: the first rule's bias minus the second rule's bias, as a mean over prompts.
    """

    contest: Contest
    won: WinRate | None
    bias: Ratio | None


class QualityReport(Value):
    """All results; ``scorer`` names the model or the address that scored the texts.

    Each rule wrote ``texts`` texts per prompt; a text has at most ``tokens`` tokens.
    """

    measure: Measure
    scorer: str
    prompts: int
    texts: int
    tokens: int
    temperature: float
    rules: tuple[RuleResult, ...]
    contests: tuple[ContestResult, ...]
    judge: JudgeBias | None = None

    @property
    def control(self) -> ContestResult | None:
        """Return the result of lossless against lossless; None with the measure *distance*."""
        first = self.contests[0] if self.contests else None
        return first if first and first.contest.first == CONTROL else None

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
    """Return the report on an experiment.

    Args:
        runs: The finished runs of the experiment's plan.
        compare: Returns, for each prompt, the outcome (1, 0.5 or 0) of each pair of texts.
        scores: The score of each run's text, by lane, prompt and repeat; empty with a judge.
    """
    lanes = experiment.plan.lanes
    by_lane = [[run for run in runs if run.job.lane == at] for at in range(len(lanes))]
    speeds, biases = log_speeds(by_lane), [_biases(own) for own in by_lane]
    contests = tuple(
        ContestResult(
            contest=each,
            won=win_rate(compare(each)),
            bias=_difference(biases[each.first], biases[each.second]),
        )
        for each in experiment.contests
        if measure != "distance" or each.second != LOSSLESS
    )
    against = {each.contest.first: each.won for each in contests if each.contest.second == LOSSLESS}
    rules = list[RuleResult]()
    for at, (lane, own) in enumerate(zip(lanes, by_lane, strict=True)):
        rules.append(
            RuleResult(
                label=lane.name,
                rule=lane.config.rule,
                epsilon=lane.config.epsilon,
                residual=lane.config.residual,
                texts=len(own),
                over_lossless=ratio(speeds[at], speeds[LOSSLESS]) if at > CONTROL else None,
                rejected=_rejected(own),
                bias=mean_of({(item, 0): each for item, each in biases[at].items()}),
                score=_mean(scores[run.job.key] for run in own if run.job.key in scores),
                won=against.get(at),
            )
        )
    return QualityReport(
        measure=measure, scorer=scorer, prompts=len(experiment.items), texts=experiment.texts,
        tokens=experiment.config.max_new_tokens, temperature=experiment.config.temperature,
        rules=tuple(rules), contests=contests, judge=judge,
    )  # fmt: skip


def _biases(runs: Sequence[LaneRun]) -> dict[int, float]:
    """Return the mean distance from the target's next-token distributions, by prompt index."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if (distance := recorded_distance(run.trace)) is not None:
            found.setdefault(run.job.item, []).append(distance)
    return {item: fmean(each) for item, each in found.items()}


def _difference(first: Mapping[int, float], second: Mapping[int, float]) -> Ratio | None:
    return mean_of({(item, 0): first[item] - second[item] for item in first if item in second})


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


# JSON


def report_to_json(
    report: QualityReport,
    experiment: Experiment,
    runs: Sequence[LaneRun] = (),
    run_ids: Mapping[tuple[int, int, int], str] | None = None,
    scores: Mapping[tuple[int, int, int], float] | None = None,
) -> dict[str, Any]:
    """Return the report as JSON values, with the texts of ``runs``.

    The keys of ``run_ids`` and ``scores`` are the lane, the item and the repeat of a run.
    """
    ids, known = run_ids or {}, scores or {}
    return {
        "kind": "win rates",
        "schema": 2,
        "measure": report.measure,
        "scorer": report.scorer,
        "pair": asdict(experiment.spec),
        "prompts": [item.prompt for item in experiment.items],
        "texts_per_prompt": experiment.texts,
        "settings": asdict(experiment.config),
        "rules": [asdict(each) for each in report.rules],
        "contests": [
            {
                **asdict(each.contest),
                "win_rate": each.won and asdict(each.won),
                "bias_difference": each.bias and asdict(each.bias),
            }
            for each in report.contests
        ],
        "texts": [
            {
                "rule": run.job.lane,
                "prompt": run.job.item,
                "run": ids.get(run.job.key),
                "score": known.get(run.job.key),
                "text": text_without_end(run.trace),
            }
            for run in runs
        ],
        "judge": report.judge and asdict(report.judge),
        "sentences": list(sentences(report)),
    }


# Text


def table_rows(report: QualityReport) -> list[tuple[str, ...]]:
    """Return the header and a row for each rule as text; omit columns without any value."""
    rules = report.rules
    columns = {
        "rule": [each.label for each in rules],
        "speed over lossless": [_ratio(each.over_lossless) for each in rules],
        "wins against lossless": [_share(each.won) for each in rules],
        "bias": [_spread(each.bias) for each in rules],
        "rejected": [PERCENT.shown(each.rejected) for each in rules],
    }
    if name := _SCORES.get(report.measure):
        columns[name] = [UNKNOWN if each.score is None else f"{each.score:.3f}" for each in rules]
    known = {name: cells for name, cells in columns.items() if set(cells) != {UNKNOWN}}
    return [tuple(known), *zip(*known.values(), strict=True)]


def _share(won: WinRate | None) -> str:
    return UNKNOWN if won is None else PERCENT.spread(won.value, won.low, won.high)


def _spread(bias: Ratio | None) -> str:
    return UNKNOWN if bias is None else PROBABILITY.spread(bias.value, bias.low, bias.high)


def _ratio(speed: Ratio | None) -> str:
    return UNKNOWN if speed is None else RATIO.spread(speed.value, speed.low, speed.high)

"""The job of an experiment: it makes the missing runs, scores their texts and makes the report.

The runs are stored like the runs of a comparison, so an interrupted experiment continues where it
stopped. A judge's replies are stored as well, because they cost time or money.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.lane_run import LaneRun
from specviz.errors import ServerError
from specviz.measure.run_makers import RunMaker
from specviz.quality.experiment import JUDGED_PAIRS, Contest, Experiment
from specviz.quality.judge import (
    PROMPT,
    Judge,
    JudgedPair,
    bias_of,
    outcomes_of_judged,
    pairs_to_judge,
)
from specviz.quality.report import QualityReport, make_report
from specviz.quality.scorers import AnswerText, Measure, recorded_distance, study_of
from specviz.quality.win_rates import Outcomes, outcomes_of
from specviz.record.conversations import Conversation
from specviz.record.token_text import text_without_end
from specviz.record.trace import Trace
from specviz.store import Library
from specviz.store.kept_values import load_value, save_value
from specviz.values import Value

QUALITY = "quality"


class Scoring(Value):
    """The chosen scorer; ``name`` is its model or address, empty for the target itself."""

    measure: Measure = "likelihood"
    name: str = ""
    judge_prompt: str = PROMPT
    judged_pairs: int = JUDGED_PAIRS
    allow_remote: bool = False


def most_requests(experiment: Experiment, judged_pairs: int) -> int:
    """Return the maximum number of requests to a judge: two for each pair."""
    pairs = min(judged_pairs, experiment.texts**2) * len(experiment.items)
    return 2 * pairs * len(experiment.contests)


class KeptReplies(Value):
    """A judge's choices by the hash of the question."""

    choices: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Scores:
    by_run: dict[tuple[int, int, int], float]

    def outcomes(self, contest: Contest) -> Outcomes:
        return outcomes_of(self._of(contest.first), self._of(contest.second))

    def _of(self, lane: int) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for (own, item, _), score in sorted(self.by_run.items()):
            if own == lane:
                found.setdefault(item, []).append(score)
        return found


class QualityJob(ComparisonJob):
    """Makes the runs of an experiment, then its report."""

    def __init__(
        self,
        experiment: Experiment,
        scoring: Scoring,
        maker: RunMaker,
        library: Library | None,
        *,
        reuse: Reuse = "any",
        must_keep: bool = False,
    ) -> None:
        super().__init__(
            experiment.plan, maker, library, name=QUALITY, title="Quality of lossy rules",
            reuse=reuse, must_keep=must_keep,
        )  # fmt: skip
        self.experiment, self.scoring = experiment, scoring
        self.report: QualityReport | None = None
        self.scores: dict[tuple[int, int, int], float] = {}  # by the key of the run
        self._scored = (0, 0)
        self._judge: Judge | None = None

    @property
    def scored(self) -> tuple[int, int]:
        """Return how many texts (with a judge: pairs) are scored, and how many are planned."""
        return self._scored

    def stop(self) -> None:
        super().stop()
        if self._judge is not None:
            self._judge.stop()

    def prepare(self) -> None:
        """Check the scorer, then pairs and prompts, before any text is written."""
        scoring = self.scoring
        if scoring.measure == "judge":
            self._judge = self._opened_judge()
        elif scoring.measure != "distance" and scoring.name:
            spec, study = study_of(scoring.measure, scoring.name, (), self.experiment.spec)
            for _ in self._maker.find(spec, study):  # yields nothing, but loads the model
                pass
        super().prepare()

    def score(self) -> Iterator[tuple[int, int]]:
        """Score the finished runs, then make the report; yield ``scored`` after each score.

        Raises:
            SpecvizError: The scorer failed.
            StoppedError: The job was stopped.
        """
        self._step = "scoring the texts"
        runs = self.measured
        yield from self._judged(runs) if self.scoring.measure == "judge" else self._compared(runs)
        self._step = ""

    def _work(self) -> None:
        super()._work()
        for _ in self.score():
            pass

    def _compared(self, runs: Sequence[LaneRun]) -> Iterator[tuple[int, int]]:
        if self.scoring.measure == "distance":
            distances = {run.job.key: recorded_distance(run.trace) for run in runs}
            self.scores = {key: -each for key, each in distances.items() if each is not None}
        else:
            yield from self._found_scores(runs)
        scores = _Scores(self.scores)
        name = self.scoring.name or self.experiment.spec.label
        self.report = make_report(
            self.experiment, runs, self.scoring.measure, name, scores.outcomes, scores.by_run
        )

    def _found_scores(self, runs: Sequence[LaneRun]) -> Iterator[tuple[int, int]]:
        # Texts of the same prompt in a row, because the prompt is then read once.
        runs = sorted(runs, key=lambda run: run.job.item)
        texts = [answer_of(run.trace) for run in runs]
        spec, study = study_of(self.scoring.measure, self.scoring.name, texts, self.experiment.spec)
        for run, score in zip(runs, self._maker.find(spec, study), strict=True):
            assert isinstance(score, float)
            self.scores[run.job.key] = score
            self._scored = len(self.scores), len(runs)
            yield self._scored

    def _judged(self, runs: Sequence[LaneRun]) -> Iterator[tuple[int, int]]:
        judge = self._judge
        assert judge is not None, "prepare opens it"
        texts = {run.job.key: answer_of(run.trace) for run in runs}
        contests = self.experiment.contests
        judged: dict[Contest, list[JudgedPair]] = {each: [] for each in contests}
        planned = [
            (contest, item, pair)
            for item in range(len(self.experiment.items))
            for contest in contests
            for pair in self._pairs(contest, item)
        ]
        try:
            for done, (contest, item, (one, other)) in enumerate(planned):
                self._scored = done, len(planned)
                yield self._scored
                self._check_stop()
                first = texts.get((contest.first, item, one))
                second = texts.get((contest.second, item, other))
                if first is not None and second is not None:
                    judged[contest].append(judge.judge(item, first, second))
        except ServerError:
            self._check_stop()  # stopping the job breaks off the request
            raise
        finally:
            self._save_replies(judge)
        self.report = make_report(
            self.experiment,
            runs,
            "judge",
            f"{judge.model} at {self.scoring.name}",
            lambda contest: outcomes_of_judged(judged[contest]),
            {},
            bias_of([each for own in judged.values() for each in own], judge.failure),
        )

    def _pairs(self, contest: Contest, item: int) -> list[tuple[int, int]]:
        random = Random(f"{contest.first} {contest.second} {item}")
        return list(pairs_to_judge(self.experiment.texts, self.scoring.judged_pairs, random))

    def _opened_judge(self) -> Judge:
        judge = Judge(
            self.scoring.name,
            prompt=self.scoring.judge_prompt,
            allow_remote=self.scoring.allow_remote,
        )
        kept = load_value("judge-replies", self._replies_key(judge), KeptReplies)
        judge.replies.update(kept.choices if kept is not None else {})
        return judge

    def _save_replies(self, judge: Judge) -> None:
        save_value(
            "judge-replies", self._replies_key(judge), KeptReplies(choices=dict(judge.replies))
        )

    def _replies_key(self, judge: Judge) -> str:
        asked = f"{self.scoring.name}\n{judge.model}\n{self.scoring.judge_prompt}"
        return hashlib.sha256(asked.encode()).hexdigest()[:32]


def answer_of(trace: Trace) -> AnswerText:
    before, text = trace.prompt.before, trace.prompt.text
    return AnswerText(
        prompt=Conversation(before=before, text=text) if before else text,
        prompt_ids=trace.prompt.token_ids,
        token_ids=trace.token_ids,
        text=text_without_end(trace),
        chat=trace.config.chat,
    )

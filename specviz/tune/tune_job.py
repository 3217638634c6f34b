"""The background job that answers a question, for the command line and the dashboard."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from threading import RLock

from specviz.comparison.plan import Lane
from specviz.figures.expectation import covers_rounds
from specviz.measure.background_job import MakerJob
from specviz.measure.run_makers import RunMaker
from specviz.record.scores import ScoredText
from specviz.record.trace import StepCosts
from specviz.tune.answer import Answer, Candidate
from specviz.tune.method_runs import ShortRunStudy, raced_gammas
from specviz.tune.methods import ShortRun, gammas_of
from specviz.tune.question import MAX_TEXTS, Question
from specviz.tune.surface import KnownRounds, enough_texts
from specviz.tune.text_study import CostsFound, PairFound, Texts, TextStudy


class _CandidateState:
    """The results of one candidate so far."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.pair: PairFound | None = None
        self.texts: list[ScoredText] = []
        self.costs: dict[float, StepCosts] = {}
        self.runs: list[ShortRun] = []
        self.runs_made = 0  # including runs without a whole round
        self._known_rounds: KnownRounds = {}

    def candidate(self, label: str, gammas: tuple[int, ...]) -> Candidate:
        return Candidate(
            label=label,
            lane=self.lane,
            texts=tuple(self.texts),
            costs=dict(self.costs),
            gammas=gammas_of(self.lane.config, gammas),
            runs=tuple(self.runs),
            info=self.pair and self.pair.info,
            memory_bytes=self.pair and self.pair.memory_bytes,
            known_rounds=self._known_rounds,
        )


class TuneJob(MakerJob):
    """A job that scores the candidates, then makes short runs where step costs give no speed.

    If the question has one prompt, the target writes further continuations while the interval is
    wide. ``given``: step costs of another machine, used instead of this machine's. ``count``: the
    number of results so far.
    """

    def __init__(
        self,
        question: Question,
        maker: RunMaker,
        *,
        given: StepCosts | None = None,
        wants_costs: bool = True,
        name: str = "tune",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(maker, name=name, label=f"Tune: {' against '.join(question.labels)}")
        self.question = question
        self.count = 0
        self.given = given
        self._wants_costs = wants_costs and given is None
        self._clock = clock
        self._num_texts = question.num_texts  # of one candidate; grows with further continuations
        self._refines_until: float | None = None
        self._found = [_CandidateState(lane) for lane in question.lanes]
        self._answer: tuple[int, str, Answer] | None = None
        self._lock = RLock()

    @property
    def progress(self) -> tuple[int, int]:
        done = sum(len(each.texts) + each.runs_made for each in self._found)
        runs = sum(self._runs(each).count for each in self._found if self._wants_runs(each))
        return done, self._num_texts * len(self._found) + runs

    @property
    def is_refining(self) -> bool:
        """Whether further texts are being scored to make an existing answer more precise."""
        return self._refines_until is not None

    @property
    def seconds_left(self) -> float | None:
        """Return the estimated seconds left; None if unknown.

        The time is unknown in three cases: no text is finished yet, step costs are being measured,
        or short runs follow.
        """
        if self._refines_until is not None:
            return max(0.0, self._refines_until - self._clock())
        done, planned = self.progress
        if not self._seconds or done == planned or any(map(self._wants_runs, self._found)):
            return None
        budget = self.question.text_budget if self.question.grows else 0.0
        return fmean(self._seconds) * (planned - done) + budget

    @property
    def answer(self) -> Answer:
        """Return the answer from the results so far, cached until the next result."""
        with self._lock:
            version = self.count, self._state
            if self._answer is None or self._answer[:2] != version:
                self._answer = (*version, self._make_answer())
            return self._answer[2]

    def _make_answer(self) -> Answer:
        labels, gammas = self.question.labels, self.question.gammas
        found = zip(self._found, labels, strict=True)
        return Answer(
            question=self.question,
            candidates=tuple(each.candidate(label, gammas) for each, label in found if each.pair),
            complete=self._state == "done",
        )

    def _work(self) -> None:
        self._check_others()
        for candidate in self._found:
            self._find(candidate, self._study(candidate.lane))
        if self.question.grows:
            self._refines_until = self._clock() + self.question.text_budget
            self._write_more(self._refines_until)
            self._refines_until = None
        for candidate in [each for each in self._found if self._wants_runs(each)]:
            self._find(candidate, self._runs(candidate))

    def _write_more(self, until: float) -> None:
        """Score further continuations until there are enough or the time is over."""
        while (count := self._num_more(until - self._clock())) > 0:
            before, self._num_texts = self._num_texts, self._num_texts + count
            for candidate in self._found:
                study = self._study(candidate.lane)
                further = replace(
                    study,
                    samplings=study.samplings[:1],
                    continuations=count,
                    first_continuation=self._continuations - count,
                    written=self._written(candidate.lane, before),
                )
                self._find(candidate, Texts(study=further))

    @property
    def _continuations(self) -> int:
        question = self.question
        return question.continuations + self._num_texts - question.num_texts

    def _num_more(self, seconds: float) -> int:
        """Return how many further continuations to score now.

        The result is the number that the interval still needs, or fewer if time is short. With few
        texts, the needed number is a rough estimate. So the result is at most the number of
        continuations so far. The caller scores them, then calls again for a better estimate.
        """
        best, have = self.answer.best, self._continuations
        if best is None or not best[1].num_texts or not self._seconds:
            return 0
        needed = math.ceil(enough_texts(best[1]) * have / best[1].num_texts)
        each = max(fmean(self._seconds) * len(self._found), 1e-6)
        return min(needed - have, have, int(seconds / each), MAX_TEXTS - self._num_texts)

    def _find(self, candidate: _CandidateState, study: TextStudy | Texts | ShortRunStudy) -> None:
        self._check_stop()
        began = self._clock()
        for value in self._maker.find(candidate.lane.spec, study):
            if isinstance(value, ScoredText):
                self._seconds.append(self._clock() - began)
            self._take(candidate, value)
            began = self._clock()

    def _wants_runs(self, candidate: _CandidateState) -> bool:
        """Return whether short runs are necessary to measure the speed, and possible."""
        costs, config = candidate.costs.get(self.question.temperature), candidate.lane.config
        predicted = covers_rounds(costs, config) and not config.draft_method.needs_head
        return self._wants_costs and self.question.text is None and not predicted

    def _runs(self, candidate: _CandidateState) -> ShortRunStudy:
        config = replace(candidate.lane.config, temperature=self.question.temperature)
        gammas = raced_gammas(config, self.question.gammas)
        return ShortRunStudy(items=self.question.items, config=config, gammas=gammas)

    def _check_others(self) -> None:
        """Check the other candidates' pairs before the first candidate is scored."""
        prompts, chat = [each.prompt for each in self.question.items], self.question.config.chat
        first, *others = dict.fromkeys(each.lane.spec for each in self._found)
        for spec in others:
            self._check_stop()
            if spec.without_bodies != first.without_bodies and not spec.served:
                self._maker.check(spec, [each for each in prompts if each], chat=chat)

    def _study(self, lane: Lane) -> TextStudy:
        question = self.question
        return TextStudy(
            items=question.items,
            samplings=tuple(
                sorted(
                    question.samplings, key=lambda each: each.temperature != question.temperature
                )
            ),
            config=lane.config,
            gammas=question.gammas,
            text=question.text,
            written=self._written(lane),
            continuations=question.continuations,
            costs=self._wants_costs and covers_rounds(None, lane.config),
        )

    def _written(self, lane: Lane, first: int = 0) -> tuple[tuple[int, ...], ...]:
        """Return the token ids of another candidate's texts, to score them again with ``lane``.

        The other candidate must have the same target as ``lane``, and all of that candidate's texts
        must have been scored. The result is () if there is no such candidate. ``first``: the index
        of the first text to return.
        """
        for each in self._found:
            same = each.lane.spec.target_place == lane.spec.target_place
            if each.lane is not lane and same and len(each.texts) == self._num_texts:
                return tuple(text.token_ids for text in each.texts[first:])
        return ()

    def _take(self, candidate: _CandidateState, value: object) -> None:
        with self._lock:
            match value:
                case PairFound():
                    candidate.pair = value
                    candidate.costs = self._given_costs()
                case ScoredText():
                    candidate.texts.append(value)
                case ShortRun() | None:
                    candidate.runs_made += 1
                    candidate.runs += [] if value is None else [value]
                case CostsFound() if value.costs is not None:
                    candidate.costs.update(dict.fromkeys(value.temperatures, value.costs))
            self.count += 1

    def _given_costs(self) -> dict[float, StepCosts]:
        if self.given is None:
            return {}
        return dict.fromkeys(self.question.temperatures, self.given)

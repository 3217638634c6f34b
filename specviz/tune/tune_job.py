"""The work of a question, for the command line and the dashboard alike."""

from __future__ import annotations

from dataclasses import replace
from threading import RLock

from specviz.comparison.plan import Lane
from specviz.figures.expectation import knows_rounds
from specviz.measure.background_job import Job
from specviz.measure.run_makers import RunMaker
from specviz.record.scores import ScoredText
from specviz.record.trace import StepCosts
from specviz.tune.answer import Answer, Candidate
from specviz.tune.method_runs import WayRuns, raced
from specviz.tune.methods import WayRun, gammas_of
from specviz.tune.question import Question
from specviz.tune.text_study import CostsFound, PairFound, TextStudy


class _Growing:
    """What is known of one candidate."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.pair: PairFound | None = None
        self.texts: list[ScoredText] = []
        self.costs: dict[float, StepCosts] = {}
        self.runs: list[WayRun] = []
        self.made = 0  # runs, those without a whole round too

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
        )


class TuneJob(Job):
    """Scores the candidates one after the other; then those run whose speed nothing else tells.
    ``given``: costs of a machine not at hand, which spare the measuring of this one's. ``count``
    grows with what is known."""

    def __init__(
        self,
        question: Question,
        maker: RunMaker,
        *,
        given: StepCosts | None = None,
        wants_costs: bool = True,
        name: str = "tune",
    ) -> None:
        super().__init__(maker, name=name, label=f"Tune: {' against '.join(question.labels)}")
        self.question = question
        self.count = 0
        self.given = given
        self._wants_costs = wants_costs and given is None
        self._found = [_Growing(lane) for lane in question.lanes]
        self._answer: tuple[int, str, Answer] | None = None
        self._lock = RLock()

    @property
    def progress(self) -> tuple[int, int]:
        done = sum(len(each.texts) + each.made for each in self._found)
        runs = sum(self._runs(each).count for each in self._found if self._wants_runs(each))
        return done, self.question.num_texts * len(self._found) + runs

    @property
    def doing(self) -> str:
        if self._state == "waiting":
            return "waiting for its turn"
        return self._maker.doing or "beginning"

    @property
    def answer(self) -> Answer:
        """Of what is known by now; worked out once for it."""
        with self._lock:
            known = self.count, self._state
            if self._answer is None or self._answer[:2] != known:
                self._answer = (*known, self._answered())
            return self._answer[2]

    def _answered(self) -> Answer:
        labels, gammas = self.question.labels, self.question.gammas
        found = zip(self._found, labels, strict=True)
        return Answer(
            question=self.question,
            candidates=tuple(each.candidate(label, gammas) for each, label in found if each.pair),
            complete=self._state == "done",
        )

    def _work(self) -> None:
        self._check_others()
        self._state = "running"
        for growing in self._found:
            self._check_stop()
            study = self._study(growing.lane)
            for value in self._maker.find(growing.lane.spec, study):
                self._take(growing, value)
        for growing in [each for each in self._found if self._wants_runs(each)]:
            self._check_stop()
            for value in self._maker.find(growing.lane.spec, self._runs(growing)):
                self._take(growing, value)

    def _wants_runs(self, growing: _Growing) -> bool:
        """Whether only runs tell its speed, and some can be made."""
        return (
            self._wants_costs
            and self.question.text is None
            and not knows_rounds(growing.costs.get(self._asked), growing.lane.config)
        )

    @property
    def _asked(self) -> float:
        return self.question.temperature

    def _runs(self, growing: _Growing) -> WayRuns:
        config = replace(growing.lane.config, temperature=self._asked)
        gammas = raced(config, self.question.gammas)
        return WayRuns(items=self.question.items, config=config, gammas=gammas)

    def _check_others(self) -> None:
        """Refuse candidates that cannot work before the first is scored."""
        prompts, chat = [each.prompt for each in self.question.items], self.question.config.chat
        first, *others = dict.fromkeys(each.lane.spec for each in self._found)
        for spec in others:
            self._check_stop()
            if spec.as_it_is != first.as_it_is and not spec.served:
                self._maker.check(spec, [each for each in prompts if each], chat=chat)

    def _study(self, lane: Lane) -> TextStudy:
        question = self.question
        return TextStudy(
            items=question.items,
            laws=question.laws,
            config=lane.config,
            gammas=question.gammas,
            text=question.text,
            written=self._written(lane),
            costs=self._wants_costs and knows_rounds(None, lane.config),
        )

    def _written(self, lane: Lane) -> tuple[tuple[int, ...], ...]:
        """The texts of a candidate before it that has the same target."""
        for each in self._found:
            same = each.lane.spec.target_place == lane.spec.target_place
            if each.lane is not lane and same and len(each.texts) == self.question.num_texts:
                return tuple(text.token_ids for text in each.texts)
        return ()

    def _take(self, growing: _Growing, value: object) -> None:
        with self._lock:
            match value:
                case PairFound():
                    growing.pair = value
                    growing.costs = self._given_costs()
                case ScoredText():
                    growing.texts.append(value)
                case WayRun() | None:
                    growing.made += 1
                    growing.runs += [] if value is None else [value]
                case CostsFound() if value.costs is not None:
                    growing.costs.update(dict.fromkeys(value.temperatures, value.costs))
            self.count += 1

    def _given_costs(self) -> dict[float, StepCosts]:
        if self.given is None:
            return {}
        return dict.fromkeys(self.question.temperatures, self.given)

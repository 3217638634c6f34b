"""The background job that trains a draft.

The training saves its progress when it is stopped, so another job with the same plan and folder can
resume it. A job whose ``gives_way`` is set pauses while other work waits, and continues afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from specviz.figures.step_times import covers_gamma
from specviz.measure.background_job import Job, MakerJob, SetAsideError
from specviz.measure.run_makers import RunMaker
from specviz.measure.step_costs import step_costs, stored_costs
from specviz.record.drafters import first_method
from specviz.record.pairs import PairSpec, pair_title
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import StepCosts
from specviz.training.drafts.card import TargetFacts, licence_of, write_draft_card
from specviz.training.drafts.curves import Curves, logged_curves
from specviz.training.drafts.estimate import Estimate, estimate, measured_arithmetic
from specviz.training.drafts.export import draft_commands
from specviz.training.drafts.plan import TrainingPlan
from specviz.training.drafts.progress import (
    Collecting,
    Computing,
    TextFigures,
    Trained,
    TrainedDraft,
)
from specviz.training.drafts.worth import (
    MOST_CANDIDATES,
    CurvePoint,
    RoundCosts,
    Worth,
    more_training,
    worth,
)
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

TRAINING = "training"
_PLACE = Path("FOLDER")  # of a draft, in its card
_CONTEXT = 256  # tokens before a round, at which its costs are computed
_QUIET, _LOOK = 3.0, 0.2  # seconds: idle time before the job continues, between checks
_PACE = 0.1  # weight of the latest step in the mean seconds of a step


class DraftWork(Value):
    """The work of a training job: ``find`` trains the draft, ``label`` is for a status line."""

    plan: TrainingPlan
    spec: PairSpec
    folder: str
    label: str = "training a draft"
    saves: bool = True

    def find(self, pair: Pair) -> Generator[object]:
        """Train; yield the estimate, the costs of a round on this machine, then the progress."""
        from specviz.engine import body_room
        from specviz.training.drafts.draft_training import train_draft

        found = estimate(self.plan, body_room(self.spec), measured_arithmetic())
        if found is not None:
            yield found
            config = RunConfig(drafter=first_method(pair.draft_kind).name)
            costs = stored_costs(pair, config) or step_costs(pair, config)
            yield round_costs(costs, found.c)
        figures: TextFigures | None = None
        with closing(train_draft(pair, self.plan, Path(self.folder))) as values:
            for value in values:
                if isinstance(value, TextFigures):
                    figures = value
                if isinstance(value, TrainedDraft) and figures is not None:
                    self._write_card(pair, figures, value)
                yield value

    def _write_card(self, pair: Pair, figures: TextFigures, result: TrainedDraft) -> None:
        target = pair.info.target.name
        name = pair_title(target)  # a card may be published: without this machine's paths
        facts = TargetFacts(
            name=name, licence=licence_of(self.spec.target_place), chats=pair.has_chat
        )
        commands = draft_commands(Path(result.folder), target=name, place=_PLACE)
        write_draft_card(self.plan, figures, result, facts, commands)


def round_costs(costs: StepCosts | None, c: float) -> RoundCosts:
    """Return the costs of a round in target steps, for each number of candidates.

    Without step costs, a verification counts as one target step.
    """
    if costs is None:
        return RoundCosts(c=c, verify=(1.0,) * MOST_CANDIDATES, measured=False)
    step = costs.target_step(_CONTEXT)
    verify = [
        (costs.verify(_CONTEXT, gamma + 1) + costs.overhead_of(gamma)) / step
        for gamma in range(1, MOST_CANDIDATES + 1)
        if covers_gamma(costs, gamma)
    ]
    return RoundCosts(c=c, verify=tuple(verify), measured=True)


class OtherWork(Value):
    """Functions that report whether other work needs the device.

    ``jobs``: whether another background job waits. ``waiting``: whether a run waits for the
    training to pause. ``busy``: whether work other than the training is running on the device.
    """

    jobs: Callable[[Job], bool]
    waiting: Callable[[], bool]
    busy: Callable[[], bool]


ALONE = OtherWork(jobs=lambda _job: False, waiting=lambda: False, busy=lambda: False)


class TrainingJob(MakerJob):
    """Trains a draft; sets ``result`` at the end.

    ``gives_way``: whether the job pauses for other work; it may change while the job runs.
    """

    def __init__(
        self,
        work: DraftWork,
        maker: RunMaker,
        *,
        others: OtherWork = ALONE,
        gives_way: bool = False,
    ) -> None:
        super().__init__(maker, name=TRAINING, label="Training of a draft")
        self.work, self.gives_way = work, gives_way
        self.curves: Curves = logged_curves(Path(work.folder), work.plan.steps)
        self.estimate: Estimate | None = None
        self.costs: RoundCosts | None = None
        self.figures: TextFigures | None = None
        self.result: TrainedDraft | None = None
        self.pauses: int = 0  # for other work
        self.on_value: Callable[[object], object] = lambda _value: None
        self._others = others
        self._steps = (0, 1)
        self._pace: float | None = None  # seconds of a step, a text's states or a written token
        self._units_left = 0
        self._written = (0, 0)  # texts that were complete, and tokens written when they were
        self._last: tuple[int, float] | None = None
        self._finishing = False

    @property
    def spec(self) -> PairSpec:
        return self.work.spec

    @property
    def progress(self) -> tuple[int, int]:
        """Return the numbers of finished and planned texts or steps of the current ``stage``."""
        return self._steps

    @property
    def stage(self) -> str:
        """Return the current stage, such as "training"; empty before the first stage."""
        return self._step

    @property
    def seconds_left(self) -> float | None:
        """Return the expected seconds left.

        The current stage is predicted from its pace, later stages from the estimate.
        """
        if self._pace is None:
            return None
        left = self._pace * self._units_left
        if self.estimate is not None and self._step == _WRITING:
            left += self.estimate.computing + self.estimate.training
        if self.estimate is not None and self._step == _COMPUTING:
            left += self.estimate.training
        return left

    @property
    def best_worth(self) -> Worth | None:
        """Return the speedups expected with the best draft so far, or None before an evaluation."""
        best = self.result or self.curves.best
        return None if best is None else self.worth_of(best)

    @property
    def gain_of_more(self) -> float | None:
        """Return the extrapolated gain in speedup from more training; see ``more_training``."""
        if self.costs is None:
            return None
        points = [
            CurvePoint(tokens=each.step * self._tokens_of_a_step, accepted=each.accepted)
            for each in self.curves.checks
        ]
        return more_training(points, self.costs, limited=self._limited)

    def worth_of(self, row: Trained | TrainedDraft, *, greedy: bool = False) -> Worth | None:
        accepted = row.agreeing if greedy else row.accepted
        if self.costs is None or not accepted:
            return None
        return worth(accepted, self.costs, limited=self._limited)

    def finish(self) -> None:
        """End the training after the current step, and make a draft of the best weights."""
        self._finishing = True

    @property
    def can_finish(self) -> bool:
        return self.curves.step > 0 and self.going and not self._finishing

    def _work(self) -> None:
        if self.pauses:
            self._wait_for_quiet()
        work = self.work
        if self._train(work):
            return
        steps = max(1, self.curves.step)
        self._train(replace(work, plan=replace(work.plan, steps=steps)))

    def _train(self, work: DraftWork) -> bool:
        """Train; return False if ``finish`` ended the training before its last step."""
        ends = work.plan.steps < self.work.plan.steps
        values = cast("Generator[object]", self._maker.find(work.spec, work))
        with closing(values):
            for value in values:
                self._take(value)
                self.on_value(value)
                self._check_stop()
                if self._finishing and not ends and isinstance(value, Trained):
                    return value.step >= value.planned
                if self._must_give_way():
                    self.pauses += 1
                    raise SetAsideError
        return True

    def _must_give_way(self) -> bool:
        waits = self.gives_way and (self._others.jobs(self) or self._others.waiting())
        return waits and self.result is None

    def _wait_for_quiet(self) -> None:
        """Wait until no other run has used the device for some seconds."""
        self._step, since = "paused for other runs", time.monotonic()
        while time.monotonic() - since < _QUIET:
            self._check_stop()
            if self.gives_way and self._others.jobs(self):
                raise SetAsideError
            if self._others.busy():
                since = time.monotonic()
            time.sleep(_LOOK)

    def _take(self, value: object) -> None:
        match value:
            case Estimate():
                self.estimate = value
            case RoundCosts():
                self.costs = value
            case TextFigures():
                self.figures = value
            case Collecting():
                if value.texts != self._written[0]:
                    self._written = value.texts, value.tokens
                longest = self.work.plan.texts.longest
                left = (value.planned - value.texts) * longest - value.tokens + self._written[1]
                self._enter(_WRITING, value.texts, value.planned, (value.tokens, left))
            case Computing():
                units = value.texts, value.planned - value.texts
                self._enter(_COMPUTING, value.texts, value.planned, units)
            case Trained():
                self.curves.add(value)
                units = value.step, value.planned - value.step
                self._enter(_LEARNING, value.step, value.planned, units)
            case _:
                assert isinstance(value, TrainedDraft)
                self.result = value

    def _enter(self, stage: str, done: int, planned: int, units: tuple[int, int]) -> None:
        """Update the progress and the mean pace.

        ``units``: the work done and the work left, in the unit of the pace: tokens, texts or steps.
        """
        now, (count, left) = time.monotonic(), units
        if stage != self._step:
            self._pace = self._last = None
        if self._last is not None and count > self._last[0]:
            pace = (now - self._last[1]) / (count - self._last[0])
            self._pace = pace if self._pace is None else self._pace + _PACE * (pace - self._pace)
        if self._last is None or count > self._last[0]:
            self._last = count, now
        self._step, self._steps, self._units_left = stage, (done, planned), max(0, left)

    @property
    def _tokens_of_a_step(self) -> int:
        return self.work.plan.batch * self.work.plan.length

    @property
    def _limited(self) -> bool:
        return self.work.plan.kind == "medusa"


_WRITING = "the target writes texts"
_COMPUTING = "computing hidden states"
_LEARNING = "training"

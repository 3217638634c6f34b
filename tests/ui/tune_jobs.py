"""Fake makers for the jobs of Tune and Lossless, with findings given by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event

import pytest
from streamlit.testing.v1 import AppTest

from specviz.measure.run_makers import RunOrder, StoppedError, Study
from specviz.record.pairs import PairSpec
from specviz.record.scores import CopiedRounds, SamplingParams, ScoredText
from specviz.tune.audit import Audit, AuditReport
from specviz.tune.method_runs import ShortRunStudy
from specviz.tune.methods import ShortRun
from specviz.tune.text_study import CostsFound, Found, PairFound, TextStudy
from tests.traces import make_pair
from tests.tune.fakes import FakeMaker
from tests.tune.scored import costs, scores_of, text_of

ODDS = tuple(0.9 if place % 4 else 0.5 for place in range(48))


class ScoringMaker(FakeMaker):
    """Scores every text with the same odds; ``held`` makes it wait before its first text."""

    def __init__(
        self,
        *,
        odds: Sequence[float] = ODDS,
        words: str = " w",
        impossible: int | None = None,
        has_costs: bool = True,
        error: Exception | None = None,
        held: bool = False,
        speed: Callable[[RunOrder], float | None] = lambda _: 1.5,
    ) -> None:
        super().__init__(speed)
        self.studies = list[TextStudy]()
        self.run_studies = list[ShortRunStudy]()
        self.go_on = Event()
        self._odds, self._words, self._impossible = odds, words, impossible
        self._has_costs, self._error, self._held = has_costs, error, held

    def find(self, spec: PairSpec, study: Study) -> Iterator[Found | ShortRun]:
        if isinstance(study, ShortRunStudy):
            yield from self._runs(study)
            return
        assert isinstance(study, TextStudy)
        self.studies.append(study)
        yield PairFound(info=make_pair(), memory_bytes=24_000_000)
        if self._held:
            self.go_on.wait(60)
        if self.stopped:
            raise StoppedError
        if self._error is not None:
            raise self._error
        temperatures = tuple(sampling.temperature for sampling in study.samplings)
        yield CostsFound(temperatures=temperatures, costs=costs() if self._has_costs else None)
        for sampling, item, _ in study.places():
            yield self._text(study, sampling, item.kind)

    def stop(self) -> None:
        super().stop()
        self.go_on.set()

    def _runs(self, study: ShortRunStudy) -> Iterator[ShortRun]:
        """Yield two runs per γ, at about five times the target's speed."""
        self.run_studies.append(study)
        for speedup in (5.0, 4.9):
            for gamma in study.gammas:
                yield ShortRun(
                    gamma=gamma, temperature=study.config.temperature, rounds=10, tokens=25,
                    speedup=speedup - gamma / 100,
                )  # fmt: skip

    def _text(self, study: TextStudy, sampling: SamplingParams, kind: str | None) -> ScoredText:
        many = len(self._odds)
        words = tuple(f"{self._words}{place}" for place in range(many))
        found = text_of(
            self._odds, temperature=sampling.temperature, token_texts=words, own=study.text is None
        )
        found = replace(found, prompt=replace(found.prompt, kind=kind))
        if not study.config.draft_method.has_steps:
            copied = tuple(_copied(gamma, many) for gamma in study.gammas)
            return replace(found, scores=None, copied=copied)
        probs = tuple(0.0 if place == self._impossible else 0.5 for place in range(many))
        scores = scores_of(self._odds, text_probs=probs, sureness=self._odds)
        return replace(found, scores=scores)


def _copied(gamma: int, length: int) -> CopiedRounds:
    """Return rounds of which every other one copies one accepted token."""
    starts = tuple(range(0, length - 3, 3))
    return CopiedRounds(
        gamma=gamma,
        starts=tuple(place for start in starts for place in (start, start + 2)),
        drafted=(min(gamma, 2), 0) * len(starts),
        emitted=(2, 1) * len(starts),
    )


class AuditingMaker(FakeMaker):
    """Yields the given reports."""

    def __init__(self, *reports: AuditReport, held: bool = False) -> None:
        super().__init__(lambda _: None)
        self.audits = list[Audit]()
        self.go_on = Event()
        self._reports, self._held = reports, held

    def find(self, spec: PairSpec, study: Study) -> Iterator[AuditReport]:
        assert isinstance(study, Audit)
        self.audits.append(study)
        yield from self._reports
        if self._held:
            self.go_on.wait(60)
        if self.stopped:
            raise StoppedError

    def stop(self) -> None:
        super().stop()
        self.go_on.set()


def put_maker(patch: pytest.MonkeyPatch, maker: FakeMaker) -> None:
    """Replace the worker for the jobs that the two pages start."""
    for page in ("tune", "lossless"):
        patch.setattr(f"specviz.ui.{page}.current.run_maker", lambda: maker)


def page_text(app: AppTest) -> str:
    """Return all text of the page."""
    parts = (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)
    return " ".join(each.value for each in parts).replace("\\", "")

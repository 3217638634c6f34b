"""Questions about tiny pairs in folders, and their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from specviz.comparison.plan import Lane
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.measure.run_makers import InProcessMaker, Study
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob

ITEMS = (
    SuiteItem(prompt="Once upon a time there was a", kind="story"),
    SuiteItem(prompt="The dog ran to the big tree", kind="story"),
    SuiteItem(prompt="One day"),
)
CONFIG = RunConfig(max_new_tokens=20, ignore_eos=True, seed=3)
TEMPERATURES = (0.0, 0.7)
GAMMAS = (1, 2, 4)


def spec_of(folder: Path, draft: str = "draft") -> PairSpec:
    return PairSpec(draft=str(folder / draft), target=str(folder / "target"), threads=1)


def lane(folder: Path, draft: str = "draft", **changes: Any) -> Lane:
    return Lane(spec=spec_of(folder, draft), config=replace(CONFIG, **changes))


def question(*lanes: Lane, **changes: Any) -> Question:
    asked: dict[str, Any] = {"items": ITEMS, "temperatures": TEMPERATURES, "gammas": GAMMAS}
    return Question(lanes=lanes, **(asked | changes))


@cache
def loaded_pairs() -> LoadedPairs:
    """Pairs shared by all tests, so that each is loaded once."""
    return LoadedPairs()


class Watched(InProcessMaker):
    """Calls back after each value is taken, before the next is computed."""

    def __init__(self, taken: Callable[[object], None] = lambda _: None) -> None:
        super().__init__(lambda _: None)
        self._pairs = loaded_pairs()
        self.taken = taken
        self.studies: list[Study] = []

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        self.studies.append(study)
        for value in super().find(spec, study):
            yield value
            self.taken(value)


def done(asked: Question, maker: InProcessMaker | None = None, **changes: Any) -> TuneJob:
    job = TuneJob(asked, maker or Watched(), **changes)
    job.carry_out()
    assert not job.going
    return job


TEXT = "Once upon a time there was a little girl called Lily"


def given_text(folder: Path, text: str = TEXT, prompt: str = "", **changes: Any) -> TuneJob:
    items = (SuiteItem(prompt=prompt),)
    return done(question(lane(folder), items=items, text=text, **changes), wants_costs=False)

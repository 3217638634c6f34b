"""Tiny pairs in folders, questions about them, and their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specviz.comparison.plan import Lane
from specviz.engine import Pair
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.measure.run_makers import InProcessMaker, Study
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from tests.engine.asking import load
from tests.engine.models import noisy_copy, small_tokenizer, tiny_model, write_model
from tests.step_costs import place_step_costs

ITEMS = (
    SuiteItem(prompt="Once upon a time there was a", kind="story"),
    SuiteItem(prompt="The dog ran to the big tree", kind="story"),
    SuiteItem(prompt="One day"),
)
CONFIG = RunConfig(max_new_tokens=20, ignore_eos=True, seed=3)
TEMPERATURES = (0.0, 0.7)
GAMMAS = (1, 2, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and two drafts; the second is better."""
    target, tokenizer = tiny_model(num_hidden_layers=1), small_tokenizer()
    folder = tmp_path_factory.mktemp("pairs")
    for name, model in (
        ("target", target),
        ("draft", noisy_copy(target, 0.2)),
        ("better", noisy_copy(target, 0.02)),
    ):
        write_model(folder / name, model, tokenizer)
    return folder


@pytest.fixture(scope="module", autouse=True)
def pair(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The first pair; step costs of both pairs are in the data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        found = load(folder)
        place_step_costs(found, "model", "prompt-lookup")
        place_step_costs(load(folder, draft=str(folder / "better")))
        yield found


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

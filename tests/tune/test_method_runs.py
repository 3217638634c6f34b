"""Short runs: their plan and results, on a tiny and the embedded pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from specviz.comparison.plan import Lane, parse_lane
from specviz.engine import speculate
from specviz.engine.model.chat import encode_prompt
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.measure.run_makers import InProcessMaker
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.run_config import RunConfig
from specviz.tune import method_runs
from specviz.tune.answer import Candidate
from specviz.tune.confirming import RaceJob
from specviz.tune.given_costs import given_costs
from specviz.tune.method_runs import ShortRunStudy, raced_gammas
from specviz.tune.methods import ShortRun
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from tests.engine.playing import llama_pair
from tests.step_costs import place_step_costs

ITEMS = (
    SuiteItem(prompt="Once upon a time there was a", kind="story"),
    SuiteItem(prompt="The dog ran to the big tree", kind="story"),
    SuiteItem(prompt="One day", kind="list"),
)
CONFIG = RunConfig(max_new_tokens=24, ignore_eos=True, seed=3, temperature=0.7)
# Lookups, another rule, a bound, and two methods that need short runs; beside the draft itself.
FIVE = ("drafter=suffix", "rule=coupled", "rule=block", "num_drafts=2", "branching=2x1")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_TIMING_SECONDS", "0.05")


def test_drops_the_slower_half_and_runs_all_on_the_same_prompts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, int]] = []

    def run(self: ShortRunStudy, pair: object, gamma: int, number: int) -> ShortRun | None:
        made.append((gamma, number))
        if gamma == 8:
            return None  # it has no whole round
        return ShortRun(gamma=gamma, temperature=0.7, rounds=1, tokens=2, speedup=1.0 + gamma / 10)

    monkeypatch.setattr(ShortRunStudy, "_run", run)
    study = ShortRunStudy(items=ITEMS, config=CONFIG, gammas=(1, 2, 4, 8))
    found = list(study.find(llama_pair("lean")))
    assert len(found) == study.count == len(made)
    counts = Counter(gamma for gamma, _ in made)
    assert counts[1] == counts[8] < counts[2] == counts[4]
    by_gamma = [[number for each, number in made if each == gamma] for gamma in (2, 4)]
    assert by_gamma[0] == by_gamma[1] == list(range(counts[2]))
    assert found.count(None) == counts[8]


def test_raced_gammas() -> None:
    assert raced_gammas(CONFIG, tuple(range(1, 17))) == (1, 2, 4, 8)
    assert raced_gammas(CONFIG, (3, 4, 5)) == (4,)
    assert raced_gammas(CONFIG, (3, 5)) == (3,)
    assert raced_gammas(replace(CONFIG, branching=(3, 2, 1)), (1, 2)) == (3,)


def test_short_run_uses_its_settings() -> None:
    """Each run has the next prompt, and after the last one another seed."""
    pair = embedded()
    config = replace(CONFIG, num_drafts=3, max_new_tokens=16)
    study = ShortRunStudy(items=ITEMS, config=config, gammas=(2,))
    found = [each for each in study.find(pair) if each is not None]
    assert len(found) == study.count == 6
    order = [ITEMS[0], ITEMS[2], ITEMS[1]]  # round-robin by kind
    for number, run in enumerate(found):
        own = replace(config, gamma=2, seed=3 + number // 3)
        prompt = encode_prompt(pair, order[number % 3].prompt, chat=False)
        whole = [each for each in speculate(pair, prompt, own) if each.whole]
        assert run.rounds == len(whole)
        assert run.tokens == sum(len(each.emitted) for each in whole)
        assert 0.01 < run.speedup < 100


# End to end


LOADED = LoadedPairs()
SPEC = PairSpec(name="tinystories", threads=1)


def embedded() -> Any:
    return LOADED.load(SPEC, lambda _: None)


class Maker(InProcessMaker):
    def __init__(self) -> None:
        super().__init__(lambda _: None, costs=False)
        self._pairs = LOADED


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TuneJob]:
    """Six candidates with stored step costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("SPECVIZ_TIMING_SECONDS", "0.05")
        patch.setattr(method_runs, "RACED", (1, 4))
        place_step_costs(embedded())
        default = Lane(spec=SPEC, config=CONFIG)
        lanes = (default, *(parse_lane(each, default) for each in FIVE))
        question = Question(lanes=lanes, items=ITEMS, temperatures=(0.7,), gammas=(1, 2, 4))
        job = TuneJob(question, Maker())
        job.carry_out()
        yield job


def by_method(job: TuneJob) -> dict[str, Candidate]:
    return dict(zip(("draft", *FIVE), job.answer.candidates, strict=True))


def test_ranks_five_methods_along_the_same_texts(tuned: TuneJob) -> None:
    assert tuned.error is None
    assert tuned.answer.complete
    assert tuned.progress[0] == tuned.progress[1]
    found = by_method(tuned)
    words = [[text.token_ids for text in each.texts] for each in found.values()]
    assert all(each == words[0] for each in words)
    assert len(tuned.answer.ranked) == 6
    best = {name: each.surface.best_at(0.7) for name, each in found.items()}
    assert {name: each and each.basis for name, each in best.items()} == {
        "draft": "expected", "drafter=suffix": "expected", "rule=coupled": "expected",
        "rule=block": "at least", "num_drafts=2": "measured", "branching=2x1": "measured",
    }  # fmt: skip
    assert {name for name, each in found.items() if each.runs} == {"num_drafts=2", "branching=2x1"}
    assert {each.gamma for each in found["num_drafts=2"].runs} == {1, 4}
    assert {each.gamma for each in found["branching=2x1"].runs} == {2}


def test_methods_along_the_same_text(tuned: TuneJob) -> None:
    found = by_method(tuned)
    for gamma in (1, 2, 4):
        cells = {name: each.surface.cell(gamma, 0.7) for name, each in found.items()}
        draft, block, several = (cells[each] for each in ("draft", "rule=block", "num_drafts=2"))
        assert draft is not None
        assert block is not None
        assert several is not None
        assert (block.tau, block.speedup) == (draft.tau, draft.speedup)
        assert several.tau > draft.tau
    coupled = found["rule=coupled"].alpha(0.7)
    assert coupled is not None
    assert 0.3 < coupled < (found["draft"].alpha(0.7) or 0.0)  # the price of shared noise


def test_runs_of_several_drafts_match_expected_tokens(tuned: TuneJob) -> None:
    """A loose bound: a few short runs against a few texts."""
    several = by_method(tuned)["num_drafts=2"]
    own = [each for each in several.runs if each.gamma == 4]
    tau = sum(each.tokens for each in own) / sum(each.rounds for each in own)
    cell = several.surface.cell(4, 0.7)
    assert cell is not None
    assert tau == pytest.approx(cell.tau, rel=0.4)


@pytest.mark.thorough
def test_races_the_first_three_methods(
    tuned: TuneJob, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    found = by_method(tuned)
    choices = [
        (found[name], cell)
        for name in ("num_drafts=2", "rule=block", "branching=2x1")
        if (cell := found[name].surface.best_at(0.7)) is not None
    ]
    race = RaceJob(choices, ITEMS, Maker(), None)
    race.carry_out()
    assert race.error is None
    assert {each.label for each in race.cells} == {each.label for each, _ in choices}
    assert all(each.speedup and each.expected for each in race.cells)


def test_no_short_runs_with_given_costs_or_text() -> None:
    default = Lane(spec=SPEC, config=CONFIG)
    lanes = (default, parse_lane("num_drafts=2", default))
    question = Question(lanes=lanes, items=ITEMS[:1], temperatures=(0.7,), gammas=(1, 2))
    for job in (
        TuneJob(question, Maker(), given=given_costs(0.1, 1.2)),
        TuneJob(question, Maker(), wants_costs=False),
        TuneJob(replace(question, text=" girl called Lily."), Maker(), wants_costs=False),
    ):
        job.carry_out()
        assert job.error is None
        _, several = job.answer.candidates
        assert several.runs == ()
        assert several.surface.best_at(0.7) is None
        assert [each.tau > 1.0 for each in several.surface.cells] == [True, True]


def test_reports_a_method_that_cannot_run() -> None:
    """An early exit that the target lacks fails before any of its texts is scored."""
    default = Lane(spec=SPEC, config=CONFIG)
    lanes = (default, parse_lane("drafter=early-exit:99", default))
    question = Question(lanes=lanes, items=ITEMS[:1], temperatures=(0.7,), gammas=(1,))
    job = TuneJob(question, Maker(), wants_costs=False)
    job.carry_out()
    assert job.state == "failed"
    assert "exit after 99" in str(job.error)

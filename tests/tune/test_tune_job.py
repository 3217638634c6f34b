"""The work of a question on tiny pairs: what it finds, how it grows, and how it ends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specviz.comparison.plan import Lane
from specviz.engine import Pair, decode_plainly
from specviz.engine.decoding import scoring
from specviz.engine.decoding.scoring import copied_rounds, score_text
from specviz.engine.model.chat import encode_prompt
from specviz.errors import PairError, PromptError, SpecvizError
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.measure.run_makers import InProcessMaker, Study
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.scores import ScoredText, TextScores
from specviz.record.trace import RunConfig, StepCosts
from specviz.tune import text_study
from specviz.tune.given_costs import given_costs
from specviz.tune.question import Question
from specviz.tune.text_study import CostsFound, PairFound, TextStudy
from specviz.tune.tune_job import TuneJob
from tests.engine.asking import load
from tests.engine.models import noisy_copy, small_tokenizer, tiny_model, write_model
from tests.step_costs import place_step_costs
from tests.traces import make_costs

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
    """A target and two drafts, of which the second is the better one."""
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
    """The first pair; its step costs, and those of the second, are in the data folder."""
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
    """Those of all tests, so that each is loaded once."""
    return LoadedPairs()


class Watched(InProcessMaker):
    """Calls back whenever a value has been taken, and before the next is looked for."""

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
    work = TuneJob(asked, maker or Watched(), **changes)
    work.carry_out()
    assert not work.going
    return work


def test_the_answer_grows_text_by_text(folder: Path) -> None:
    seen: list[tuple[int, int, bool]] = []

    def look(value: object) -> None:
        answer = work.answer
        assert work.answer is answer  # worked out once
        texts = sum(len(each.texts) for each in answer.candidates)
        assert work.progress == (texts, 12)
        seen.append((len(answer.candidates), texts, isinstance(value, ScoredText)))
        assert not answer.complete

    work = TuneJob(question(lane(folder), lane(folder, "better")), Watched(look))
    assert (work.doing, work.progress) == ("waiting for its turn", (0, 12))
    assert work.answer.candidates == ()
    work.carry_out()
    assert (work.state, work.error, work.progress) == ("done", None, (12, 12))
    assert seen[0] == (1, 0, False)
    assert [texts for _, texts, scored in seen if scored] == list(range(1, 13))
    assert seen[-1][0] == 2
    answer = work.answer
    assert answer.complete
    for each in answer.candidates:
        assert len(each.surface.cells) == len(GAMMAS) * len(TEMPERATURES)
        assert all(cell.speedup is not None and cell.num_texts == 3 for cell in each.surface.cells)
        assert each.info is not None
        assert (each.memory_bytes or 0) > 0
    assert [each.label for each, _ in answer.ranked] == [answer.question.labels[1],
                                                        answer.question.labels[0]]  # fmt: skip


def test_all_candidates_of_a_target_are_judged_along_the_same_words(folder: Path) -> None:
    lanes = lane(folder), lane(folder, "better"), lane(folder, drafter="prompt-lookup")
    first, better, lookup = done(question(*lanes)).answer.candidates
    for one, two, three in zip(first.texts, better.texts, lookup.texts, strict=True):
        assert one.token_ids == two.token_ids == three.token_ids
        assert one.prompt == two.prompt == three.prompt
        assert one.scores is not None
        assert two.scores is not None
        assert one.scores.text_probs == pytest.approx(two.scores.text_probs)
        assert one.scores.odds != two.scores.odds
        assert (one.copied, three.scores) == ((), None)
        assert [each.gamma for each in three.copied] == list(GAMMAS)
    assert (better.alpha(0.7) or 0.0) > (first.alpha(0.7) or 0.0)
    assert lookup.alpha(0.7) is None
    assert len(lookup.surface.cells) == len(GAMMAS) * len(TEMPERATURES)


def test_another_target_writes_texts_of_its_own(folder: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "o", tiny_model(num_hidden_layers=1, seed=5), small_tokenizer())
    own = Lane(spec=replace(spec_of(folder), target=str(other)), config=CONFIG)
    maker = Watched()
    first, second = done(
        question(lane(folder), own), maker, given=given_costs(0.1, 1.0)
    ).answer.candidates
    assert [each.token_ids for each in first.texts] != [each.token_ids for each in second.texts]
    assert [each.written for each in maker.studies if isinstance(each, TextStudy)] == [(), ()]


def test_texts_are_the_targets_own_and_scored_under_their_law(folder: Path, pair: Pair) -> None:
    (candidate,) = done(question(lane(folder))).answer.candidates
    places = [(law, item) for law in TEMPERATURES for item in ITEMS]
    for (temperature, item), text in zip(places, candidate.texts, strict=True):
        config = replace(CONFIG, temperature=temperature)
        prompt = encode_prompt(pair, item.prompt, chat=False)
        assert (text.law.temperature, text.prompt.kind, text.own) == (temperature, item.kind, True)
        assert text.prompt.token_ids == tuple(prompt)
        assert len(text.token_ids) == 20
        assert "".join(text.token_texts)
        (scores,) = score_text(pair, prompt, text.token_ids, [config])
        assert text.scores == scores
        assert scores.impossible_at is None
        if temperature == 0.0:
            assert text.token_ids == tuple(decode_plainly(pair, prompt, config))


def test_the_law_of_a_text_is_that_of_all_settings(folder: Path, pair: Pair) -> None:
    """Of one likeliest token alone, every temperature writes the greedy text."""
    asked = question(lane(folder, top_k=1), temperatures=(0.0, 1.0))
    (candidate,) = done(asked, wants_costs=False).answer.candidates
    texts = [each.token_ids for each in candidate.texts]
    assert texts[:3] == texts[3:]
    assert {each.law.top_k for each in candidate.texts} == {1}


def test_sampled_texts_have_the_targets_law(pair: Pair) -> None:
    """Two tokens, each one of three: how often each text is written, against its probability."""
    prompt = encode_prompt(pair, ITEMS[0].prompt, chat=False)
    settings = replace(CONFIG, temperature=1.5, top_k=3, max_new_tokens=2)
    runs = 400
    seen = Counter(
        tuple(text_study.written(pair, prompt, replace(settings, seed=seed)))
        for seed in range(runs)
    )
    chances: dict[tuple[int, ...], float] = {}
    for text in seen:
        (scores,) = score_text(pair, prompt, text, [settings])
        chances[text] = math.prod(scores.text_probs)
    rest = 1.0 - sum(chances.values())  # of texts that never came
    assert len(seen) >= 6
    distance = runs * rest + sum(
        (seen[text] - runs * chance) ** 2 / (runs * chance) for text, chance in chances.items()
    )
    assert distance < 26.1  # what chance exceeds once in a thousand, by chi-squared of 8


def test_a_text_that_ends_by_itself_says_so(folder: Path, pair: Pair) -> None:
    config = replace(CONFIG, temperature=0.0)
    prompt = encode_prompt(pair, ITEMS[0].prompt, chat=False)
    tokens = list(decode_plainly(pair, prompt, config))
    ended = replace(pair, eos_ids=frozenset({tokens[7]}))
    length = tokens.index(tokens[7]) + 1
    for ignored, ends in ((False, True), (True, False)):
        study = TextStudy(
            items=ITEMS[:1], laws=question(lane(folder), temperatures=(0.0,)).laws,
            config=replace(CONFIG, ignore_eos=ignored), gammas=GAMMAS, costs=False,
        )  # fmt: skip
        _, text = study.find(ended)
        assert isinstance(text, ScoredText)
        assert text.ends is ends
        assert text.token_ids == tuple(tokens[:length] if ends else tokens)


def test_copied_rounds_are_those_of_the_text(folder: Path, pair: Pair) -> None:
    (candidate,) = done(question(lane(folder, drafter="prompt-lookup"))).answer.candidates
    for text in candidate.texts:
        found = copied_rounds(pair, text.prompt.token_ids, text.token_ids, GAMMAS, ends=False)
        assert text.copied == found


def test_a_near_tie_makes_no_text_of_the_targets_own_impossible(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where few bits let a pass over the text choose otherwise than the steps that wrote it."""

    def tied(*asked: Any) -> tuple[TextScores, ...]:
        (scores,) = score_text(*asked)
        probs = (*scores.text_probs[:5], 0.0, 0.0, *scores.text_probs[7:])
        matches = (*scores.matches[:5], True, False, *scores.matches[7:])
        odds = (*scores.odds[:5], 0.0, 0.0, *scores.odds[7:])
        return (replace(scores, text_probs=probs, matches=matches, odds=odds),)

    usual = done(question(lane(folder)), wants_costs=False).answer
    monkeypatch.setattr(scoring, "score_text", tied)
    answer = done(question(lane(folder)), wants_costs=False).answer
    assert answer.impossible == ()
    assert all(cell.num_texts == 3 for cell in answer.candidates[0].surface.cells)
    both = zip(answer.candidates[0].texts, usual.candidates[0].texts, strict=True)
    for text, before in both:
        assert text.scores is not None
        assert before.scores is not None
        assert text.scores.odds[5:7] == (1.0, 0.0)
        assert text.scores.odds[7:] == before.scores.odds[7:]
        assert 0.0 < max(text.scores.text_probs[5:7]) < 1e-300
    assert given_text(folder).answer.candidates[0].texts[0].scores is not None
    assert given_text(folder).answer.impossible  # of other words it stays as it is


# Costs


def test_given_costs_are_those_of_every_temperature_and_none_are_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(text_study, "stored_costs", never)
    monkeypatch.setattr(text_study, "step_costs", never)
    given = given_costs(0.1, 1.3)
    (candidate,) = done(question(lane(folder)), given=given).answer.candidates
    assert candidate.costs == dict.fromkeys(TEMPERATURES, given)
    for cell in candidate.surface.cells:
        assert cell.speedup == pytest.approx(cell.tau / (0.1 * cell.gamma + 1.3))
    (bare,) = done(question(lane(folder)), wants_costs=False).answer.candidates
    assert (bare.costs, bare.surface.best) == ({}, None)
    assert len(bare.surface.cells) == len(candidate.surface.cells)


def test_stored_costs_come_before_the_texts_and_missing_ones_after_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy steps have costs of their own; sampled ones are alike at every temperature."""
    measured: list[float] = []

    def stored(_pair: Pair, config: RunConfig) -> StepCosts | None:
        return make_costs() if config.temperature == 0 else None

    def measure(_pair: Pair, config: RunConfig) -> StepCosts | None:
        measured.append(config.temperature)
        return None if len(measured) > 1 else make_costs(draft=0.002)

    monkeypatch.setattr(text_study, "stored_costs", stored)
    monkeypatch.setattr(text_study, "step_costs", measure)
    values: list[object] = []
    asked = question(lane(folder), temperatures=(0.0, 0.5, 1.0))
    work = done(asked, Watched(values.append))
    kinds = [type(each) for each in values]
    assert kinds == [PairFound, CostsFound, *[ScoredText] * 9, CostsFound]
    assert measured == [0.5]
    (candidate,) = work.answer.candidates
    assert candidate.costs == {
        0.0: make_costs(), 0.5: make_costs(draft=0.002), 1.0: make_costs(draft=0.002),
    }  # fmt: skip
    (unknown,) = done(asked).answer.candidates  # no time for a second measurement
    assert set(unknown.costs) == {0.0}
    assert {each.temperature for each in unknown.surface.cells} == {0.0, 0.5, 1.0}


# Given words


TEXT = "Once upon a time there was a little girl called Lily"


def given_text(folder: Path, text: str = TEXT, prompt: str = "", **changes: Any) -> TuneJob:
    items = (SuiteItem(prompt=prompt),)
    return done(question(lane(folder), items=items, text=text, **changes), wants_costs=False)


def test_given_words_are_scored_and_their_first_token_is_the_prompt(
    folder: Path, pair: Pair
) -> None:
    ids = encode_prompt(pair, TEXT, chat=False)
    (candidate,) = given_text(folder).answer.candidates
    for text in candidate.texts:
        assert (text.prompt.token_ids, text.token_ids) == (tuple(ids[:1]), tuple(ids[1:]))
        assert not text.own
    (candidate,) = given_text(folder, " girl", prompt="the little").answer.candidates
    assert candidate.texts[0].prompt.token_ids == tuple(
        encode_prompt(pair, "the little", chat=False)
    )


def test_words_that_the_target_never_writes_are_told_apart(folder: Path) -> None:
    answer = given_text(folder).answer
    greedy, sampled = answer.candidates[0].texts
    assert greedy.scores is not None
    assert greedy.scores.impossible_at is not None
    assert sampled.scores is not None
    assert sampled.scores.impossible_at is None
    assert answer.impossible == (greedy,)
    assert {each.temperature for each in answer.candidates[0].surface.cells} == {0.7}


@pytest.mark.parametrize(("text", "culprit"), [("a", "single token"), ("word " * 600, "context")])
def test_words_that_cannot_be_scored_are_refused(folder: Path, text: str, culprit: str) -> None:
    work = given_text(folder, text)
    assert work.state == "failed"
    assert isinstance(work.error, PromptError)
    assert culprit in str(work.error)


# The end


@pytest.mark.parametrize("values", [1, 2, 4, 9])
def test_a_stop_ends_it_and_keeps_what_was_found(folder: Path, values: int) -> None:
    seen: list[object] = []

    def stop(value: object) -> None:
        seen.append(value)
        if len(seen) == values:
            work.stop()

    work = TuneJob(question(lane(folder), lane(folder, "better")), Watched(stop))
    work.carry_out()
    assert (work.state, work.was_stopped, work.error) == ("stopped", True, None)
    assert len(seen) == values == work.count
    texts = sum(isinstance(each, ScoredText) for each in seen)
    assert work.progress == (texts, 12)
    assert sum(len(each.texts) for each in work.answer.candidates) == texts


def test_a_work_that_waits_is_stopped_at_once(folder: Path) -> None:
    maker = Watched()
    work = TuneJob(question(lane(folder)), maker)
    work.stop()
    assert (work.state, work.going) == ("stopped", False)
    work.carry_out()
    assert (work.state, maker.studies, work.count) == ("stopped", [], 0)


def test_a_candidate_that_is_not_there_is_refused_before_the_first_is_scored(
    folder: Path, tmp_path: Path
) -> None:
    missing = Lane(spec=replace(spec_of(folder), draft=str(tmp_path / "none")), config=CONFIG)
    work = done(question(lane(folder), missing))
    assert (work.state, work.progress) == ("failed", (0, 12))
    assert isinstance(work.error, PairError)
    assert str(tmp_path / "none") in str(work.error)
    assert not work.answer.candidates


@dataclass
class Broken:
    """A maker whose study goes wrong in a way that nobody foresaw."""

    error: Exception
    doing: str = ""

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        raise self.error
        yield

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_an_unexpected_error_is_named(folder: Path) -> None:
    maker: Any = Broken(ZeroDivisionError("x"))
    work = done(question(lane(folder)), maker)
    assert work.state == "failed"
    assert type(work.error) is SpecvizError
    assert "ZeroDivisionError" in str(work.error)
    assert work.answer.candidates == ()


def laws(found: Sequence[ScoredText]) -> list[float]:
    return [each.law.temperature for each in found]


def test_texts_come_in_the_order_of_laws_and_prompts(folder: Path) -> None:
    (candidate,) = done(question(lane(folder))).answer.candidates
    assert laws(candidate.texts) == [0.0] * 3 + [0.7] * 3
    assert [each.prompt.text for each in candidate.texts] == 2 * [each.prompt for each in ITEMS]
    assert [len(candidate.at(each)) for each in TEMPERATURES] == [3, 3]

"""The tune job on tiny pairs: its results, its progress, and its end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from specviz.comparison.plan import Lane
from specviz.engine import Pair, decode_plainly
from specviz.engine.decoding import scoring
from specviz.engine.decoding.scoring import copied_rounds, score_text
from specviz.engine.model.chat import encode_prompt
from specviz.errors import PairError, SpecvizError
from specviz.measure.run_makers import Study
from specviz.record.pairs import PairSpec
from specviz.record.scores import ScoredText, TextScores
from specviz.tune import surface, text_study
from specviz.tune.given_costs import given_costs
from specviz.tune.question import enough_continuations
from specviz.tune.surface import enough_texts
from specviz.tune.text_study import TextStudy
from specviz.tune.tune_job import TuneJob
from tests.engine.models import small_tokenizer, tiny_model, write_model
from tests.tune.tune_pairs import (
    CONFIG,
    GAMMAS,
    ITEMS,
    TEMPERATURES,
    Watched,
    done,
    given_text,
    lane,
    question,
    spec_of,
)

pytestmark = pytest.mark.usefixtures("pair")


def test_answer_grows_with_every_text(folder: Path) -> None:
    seen: list[tuple[int, int, bool]] = []

    def look(value: object) -> None:
        answer = job.answer
        assert job.answer is answer  # cached
        texts = sum(len(each.texts) for each in answer.candidates)
        assert job.progress == (texts, 12)
        seen.append((len(answer.candidates), texts, isinstance(value, ScoredText)))
        assert not answer.complete

    job = TuneJob(question(lane(folder), lane(folder, "better")), Watched(look))
    assert (job.doing, job.progress) == ("waiting for its turn", (0, 12))
    assert job.answer.candidates == ()
    job.carry_out()
    assert (job.state, job.error, job.progress) == ("done", None, (12, 12))
    assert seen[0] == (1, 0, False)
    assert [texts for _, texts, scored in seen if scored] == list(range(1, 13))
    assert seen[-1][0] == 2
    answer = job.answer
    assert answer.complete
    for each in answer.candidates:
        assert len(each.surface.cells) == len(GAMMAS) * len(TEMPERATURES)
        assert all(cell.speedup is not None and cell.num_texts == 3 for cell in each.surface.cells)
        assert each.info is not None
        assert (each.memory_bytes or 0) > 0
    assert [each.label for each, _ in answer.ranked] == [answer.question.labels[1],
                                                        answer.question.labels[0]]  # fmt: skip


def test_candidates_of_a_target_share_its_texts(folder: Path) -> None:
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


def test_another_target_writes_its_own_texts(folder: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "o", tiny_model(num_hidden_layers=1, seed=5), small_tokenizer())
    own = Lane(spec=replace(spec_of(folder), target=str(other)), config=CONFIG)
    maker = Watched()
    first, second = done(
        question(lane(folder), own), maker, given=given_costs(0.1, 1.0)
    ).answer.candidates
    assert [each.token_ids for each in first.texts] != [each.token_ids for each in second.texts]
    assert [each.written for each in maker.studies if isinstance(each, TextStudy)] == [(), ()]


def test_scores_the_targets_texts_with_their_sampling(folder: Path, pair: Pair) -> None:
    (candidate,) = done(question(lane(folder))).answer.candidates
    places = [(sampling, item) for sampling in (0.7, 0.0) for item in ITEMS]
    for (temperature, item), text in zip(places, candidate.texts, strict=True):
        config = replace(CONFIG, temperature=temperature)
        prompt = encode_prompt(pair, item.prompt, chat=False)
        assert (text.sampling.temperature, text.prompt.kind, text.own) == (
            temperature,
            item.kind,
            True,
        )
        assert text.prompt.token_ids == tuple(prompt)
        assert len(text.token_ids) == 20
        assert "".join(text.token_texts)
        (scores,) = score_text(pair, prompt, text.token_ids, [config])
        assert text.scores == scores
        assert scores.impossible_at is None
        if temperature == 0.0:
            assert text.token_ids == tuple(decode_plainly(pair, prompt, config))


def test_a_single_prompt_gets_several_continuations(folder: Path) -> None:
    """At temperature 0 all would be equal, so there is one."""
    items = ITEMS[:1]
    asked = replace(question(lane(folder)), items=items, continuations=enough_continuations(items))
    (candidate,) = done(asked, wants_costs=False).answer.candidates
    assert temperatures_of(candidate.texts) == [0.7] * 5 + [0.0]
    assert len({each.token_ids for each in candidate.at(0.7)}) == 5
    texts = {each.temperature: each.num_texts for each in candidate.surface.cells}
    assert texts == {0.0: 1, 0.7: 5}


def growing(folder: Path, budget: float, *lanes: Lane) -> TuneJob:
    """Return the finished job about one prompt; every scored text takes a second."""
    seconds = [0.0]

    def look(value: object) -> None:
        seconds[0] += isinstance(value, ScoredText)
        known = job.seconds_left
        if job.is_refining:
            assert known == max(0, budget - (seconds[0] - begin[0]))
            assert job.answer.best is not None
        elif job.progress[0] > 1:
            begin[:] = [seconds[0]]
            assert (known is None) == (job.progress[0] == job.progress[1])

    begin: list[float] = []

    items = ITEMS[:1]
    asked = question(
        *(lanes or [lane(folder)]), items=items, continuations=5, text_budget=budget
    )  # fmt: skip
    job = TuneJob(asked, Watched(look), clock=lambda: seconds[0])
    job.carry_out()
    assert job.error is None
    return job


def test_a_rough_answer_gets_further_texts_within_the_budget(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surface, "AIM", 0.001)
    job = growing(folder, 12, lane(folder), lane(folder, "better"))
    first, better = job.answer.candidates
    own = first.at(0.7)
    assert len({each.token_ids for each in own}) == len(own)
    assert [each.token_ids for each in better.at(0.7)] == [each.token_ids for each in own]
    assert len(own) == 5 + 6  # two candidates, so six texts take the twelve seconds
    assert temperatures_of(first.texts).count(0.0) == 1
    assert job.progress == (24, 24)
    best = job.answer.best
    assert best is not None
    assert best[1].num_texts == 11


def test_further_texts_stop_at_a_precise_answer(folder: Path) -> None:
    job = growing(folder, 3000)
    best = job.answer.best
    assert best is not None
    assert enough_texts(best[1]) <= best[1].num_texts < 1000
    assert best[1].num_texts > 5


@pytest.mark.parametrize(("budget", "count"), [(0, 5), (0.5, 5), (2, 7)])
def test_further_texts_fit_into_the_budget(
    folder: Path, monkeypatch: pytest.MonkeyPatch, budget: float, count: int
) -> None:
    monkeypatch.setattr(surface, "AIM", 0.001)
    (candidate,) = growing(folder, budget).answer.candidates
    assert len(candidate.at(0.7)) == count


def test_several_prompts_get_no_further_texts(folder: Path) -> None:
    (candidate,) = done(replace(question(lane(folder)), text_budget=60)).answer.candidates
    assert len(candidate.texts) == len(ITEMS) * len(TEMPERATURES)


def test_sampling_includes_the_filters(folder: Path, pair: Pair) -> None:
    """With top-k 1, every temperature writes the greedy text."""
    asked = question(lane(folder, top_k=1), temperatures=(0.0, 1.0))
    (candidate,) = done(asked, wants_costs=False).answer.candidates
    texts = [each.token_ids for each in candidate.texts]
    assert texts[:3] == texts[3:]
    assert {each.sampling.top_k for each in candidate.texts} == {1}


def test_sampled_texts_follow_the_targets_distribution(pair: Pair) -> None:
    """Compare the frequency of each text of two tokens of three with its probability."""
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
    assert distance < 26.1  # the 99.9 % quantile of chi-squared with 8 degrees of freedom


def test_marks_texts_that_end_with_eos(folder: Path, pair: Pair) -> None:
    config = replace(CONFIG, temperature=0.0)
    prompt = encode_prompt(pair, ITEMS[0].prompt, chat=False)
    tokens = list(decode_plainly(pair, prompt, config))
    ended = replace(pair, eos_ids=frozenset({tokens[7]}))
    length = tokens.index(tokens[7]) + 1
    for ignored, ends in ((False, True), (True, False)):
        study = TextStudy(
            items=ITEMS[:1], samplings=question(lane(folder), temperatures=(0.0,)).samplings,
            config=replace(CONFIG, ignore_eos=ignored), gammas=GAMMAS, costs=False,
        )  # fmt: skip
        _, text = study.find(ended)
        assert isinstance(text, ScoredText)
        assert text.ends is ends
        assert text.token_ids == tuple(tokens[:length] if ends else tokens)


def test_copied_rounds_match_the_text(folder: Path, pair: Pair) -> None:
    (candidate,) = done(question(lane(folder, drafter="prompt-lookup"))).answer.candidates
    for text in candidate.texts:
        found = copied_rounds(pair, text.prompt.token_ids, text.token_ids, GAMMAS, ends=False)
        assert text.copied == found


def test_near_tie_does_not_make_the_targets_text_impossible(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In low precision, a pass over the text may choose otherwise than the steps that wrote it."""

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
    assert given_text(folder).answer.impossible  # a given text is not corrected


# The end


@pytest.mark.parametrize("values", [1, 2, 4, 9])
def test_stop_keeps_the_results_so_far(folder: Path, values: int) -> None:
    seen: list[object] = []

    def stop(value: object) -> None:
        seen.append(value)
        if len(seen) == values:
            job.stop()

    job = TuneJob(question(lane(folder), lane(folder, "better")), Watched(stop))
    job.carry_out()
    assert (job.state, job.was_stopped, job.error) == ("stopped", True, None)
    assert len(seen) == values == job.count
    texts = sum(isinstance(each, ScoredText) for each in seen)
    assert job.progress == (texts, 12)
    assert sum(len(each.texts) for each in job.answer.candidates) == texts


def test_waiting_job_stops_at_once(folder: Path) -> None:
    maker = Watched()
    job = TuneJob(question(lane(folder)), maker)
    job.stop()
    assert (job.state, job.going) == ("stopped", False)
    job.carry_out()
    assert (job.state, maker.studies, job.count) == ("stopped", [], 0)


def test_checks_all_candidates_before_scoring_the_first(folder: Path, tmp_path: Path) -> None:
    missing = Lane(spec=replace(spec_of(folder), draft=str(tmp_path / "none")), config=CONFIG)
    job = done(question(lane(folder), missing))
    assert (job.state, job.progress) == ("failed", (0, 12))
    assert isinstance(job.error, PairError)
    assert str(tmp_path / "none") in str(job.error)
    assert not job.answer.candidates


@dataclass
class Broken:
    """A maker whose study raises an unexpected error."""

    error: Exception
    doing: str = ""

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        raise self.error
        yield

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_names_an_unexpected_error(folder: Path) -> None:
    maker: Any = Broken(ZeroDivisionError("x"))
    job = done(question(lane(folder)), maker)
    assert job.state == "failed"
    assert type(job.error) is SpecvizError
    assert "ZeroDivisionError" in str(job.error)
    assert job.answer.candidates == ()


def temperatures_of(found: Sequence[ScoredText]) -> list[float]:
    return [each.sampling.temperature for each in found]


def test_yields_texts_in_order_of_samplings_and_prompts(folder: Path) -> None:
    (candidate,) = done(question(lane(folder))).answer.candidates
    assert temperatures_of(candidate.texts) == [0.7] * 3 + [0.0] * 3  # the ranked temperature first
    assert [each.prompt.text for each in candidate.texts] == 2 * [each.prompt for each in ITEMS]
    assert [len(candidate.at(each)) for each in TEMPERATURES] == [3, 3]

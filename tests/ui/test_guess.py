"""The lesson's guessing game: questions, scores and streaks."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from specviz.ui.learn.checks import text_of
from specviz.ui.learn.guess import Game, Question, questions_of
from specviz.worker.parent.client import Run
from tests.ui.lesson_runs import real, written
from tests.ui.paging import page_of, sound


def test_the_true_probability_scores_best() -> None:
    for question in questions_of(real(temperature=1.0).trace):
        most = len(question.entry.candidates) if question.place is None else 1
        scores = {g: question.score(most * g / 100) for g in range(1, 100)}
        assert max(scores.values()) <= 100.0 + 1e-9
        if 0.0 < question.truth < 1.0:
            assert question.score(question.truth) == pytest.approx(100.0)
        best = max(scores, key=lambda g: scores[g])
        assert abs(most * best / 100 - question.truth) <= most / 100 + 1e-9


def test_a_count_that_is_off_by_half_of_the_candidates_scores_nothing() -> None:
    question = next(q for q in questions_of(real(temperature=1.0).trace) if q.place is None)
    half = len(question.entry.candidates) / 2
    assert half > 1
    assert question.score(question.truth + half) == pytest.approx(0.0)
    assert question.score(question.truth + half / 2) == pytest.approx(75.0)
    assert question.score(question.truth + 1.5 * half) < -100.0


def test_the_score_is_the_expected_logarithmic_loss() -> None:
    """The expected loss in bits of guessing g where the probability is r."""
    questions = [q for q in questions_of(real(temperature=1.0).trace) if q.place is not None]
    question = next(q for q in questions if 0.05 < q.truth < 0.95)
    r = question.truth

    def loss(g: float) -> float:
        return -r * math.log2(g) - (1 - r) * math.log2(1 - g)

    for g in (0.05, 0.5, 0.95):
        assert 100 * (1 - (loss(g) - loss(r))) == pytest.approx(question.score(g))


@pytest.mark.parametrize(
    ("guess", "least", "most"), [(0.95, 90, 100), (0.5, 0, 0), (0.05, -400, -300)]
)
def test_a_confident_wrong_guess_costs_points(guess: float, least: float, most: float) -> None:
    question = next(iter(questions_of(written(["ar"]).trace)))
    sure = replace(question.entry.candidates[0], uniform=0.0, draft_prob=0.2, target_prob=0.4)
    entry = replace(question.entry, candidates=(sure, *question.entry.candidates[1:]))
    assert Question(entry, 0).truth == 1.0
    assert least <= Question(entry, 0).score(guess) <= most


def test_a_streak_ends_with_a_guess_far_from_the_probability_whatever_the_outcome() -> None:
    game = Game(1, None)
    questions = [
        each for each in questions_of(real(temperature=1.0).trace) if each.place is not None
    ]
    for question in questions[:3]:
        game.answer(question, min(max(question.truth, 0.05), 0.95))
    assert (game.streak, game.top_streak, game.answered) == (3, 3, 3)
    game.answer(questions[3], 0.05 if questions[3].truth > 0.5 else 0.95)
    assert (game.streak, game.top_streak) == (0, 3)


def test_an_answered_question_stays_until_the_user_goes_on() -> None:
    game, question = Game(1, None), next(iter(questions_of(real(temperature=1.0).trace)))
    game.answer(question, 0.0)
    assert (game.answered, game.place, bool(game.feedback)) == (1, 0, True)
    game.go_on()
    assert (game.answered, game.place, bool(game.feedback)) == (1, 1, False)


def test_the_expected_count_follows_from_the_odds() -> None:
    question = next(iter(questions_of(written(["ar"]).trace)))
    one, other = (each.odds for each in question.entry.candidates)
    assert Question(question.entry, None).truth == pytest.approx(one + one * other)


def test_the_rounds_of_a_game_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def submit(*_: object, kept: bool = True, **__: object) -> SimpleNamespace:
        asked.append(kept)
        return SimpleNamespace(finished=True, trace=real(temperature=1.0).trace)

    worker = SimpleNamespace(submit=submit)
    monkeypatch.setattr("specviz.ui.learn.guess.the_worker", lambda: worker)
    page_of("learn", learn="guess")
    assert asked == [False]


def test_a_guess_needs_a_choice() -> None:
    app = page_of("learn")
    run = SimpleNamespace(finished=True, trace=real(temperature=1.0).trace)
    game = Game(1, cast(Run, run))
    app.session_state["game"], app.session_state["learn"] = game, "guess"
    sound(app.run())

    def submit() -> list[str]:
        (button,) = [each for each in app.button if each.label == text_of("page")["guess"]]
        return [each.value for each in sound(button.click().run()).info]

    assert submit() == [text_of("page")["choose"]]
    app.radio[0].set_value(0)
    assert submit() == []
    assert game.answered == 1

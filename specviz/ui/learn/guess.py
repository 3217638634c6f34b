"""A game: guess whether a candidate is accepted, or how many candidates of a round are accepted.

A guess g is compared with the exact answer r, not with the outcome. The answer is a probability or
an expected count. The score is 100 minus a penalty, which is 0 for g = r. Both penalties come from
proper scoring rules. For a probability, the penalty is 100 times the Kullback-Leibler divergence,
in bits, of g from r. For the expected count among m candidates, it is 100 (g - r)^2 / (m / 2)^2. A
guess far from r scores below 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import log2
from operator import mul

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec
from specviz.record.token_text import SPECIAL_TOKENS, emitted_tokens, token_label
from specviz.record.trace import Round, RunConfig, Trace
from specviz.ui.learn.checks import text_of
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.worker import the_worker, this_tab
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.worker.parent.client import Run

_PROMPT = "Once upon a time there was a fox who"
_CONFIG = RunConfig(gamma=5, temperature=1.0, max_new_tokens=96, ignore_eos=True)
_LEVELS = {0.05: "surely_not", 0.25: "rather_not", 0.5: "even", 0.75: "rather", 0.95: "surely"}
_COUNTS = tuple(range(_CONFIG.gamma + 1))
_COLOURS = {"accepted": "green", "rejected": "orange"}
_SIGNS = {"accepted": "✓ ", "rejected": "✗ "}
_GOOD = 75  # least score of a guess that continues a streak
_SEEN = 24  # tokens of the text shown before a round


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the round ``entry``: is the candidate with the index ``place`` accepted?

    If ``place`` is None, the question is how many candidates of the round are accepted.
    """

    entry: Round
    place: int | None

    @property
    def truth(self) -> float:
        """The exact answer: a probability, or an expected number of accepted candidates."""
        odds = [each.odds for each in self.entry.candidates]
        return sum(accumulate(odds, mul)) if self.place is None else odds[self.place]

    @property
    def outcome(self) -> int:
        accepted = self.entry.num_accepted
        return accepted if self.place is None else int(self.place < accepted)

    def score(self, guess: float) -> float:
        if self.place is not None:
            return 100.0 * (1.0 - _divergence(self.truth, guess))
        return 100.0 * (1.0 - ((guess - self.truth) / (len(self.entry.candidates) / 2)) ** 2)


def _divergence(truth: float, guess: float) -> float:
    """Return the Kullback-Leibler divergence, in bits, of a guess from a probability."""
    sides = ((truth, guess), (1.0 - truth, 1.0 - guess))
    return sum(actual * log2(actual / guessed) for actual, guessed in sides if actual > 0.0)


@dataclass(slots=True)
class Game:
    """A guessing game about the rounds of one run. ``seed`` is the seed of this run.

    ``recorded`` is the trace of a recorded run. If it is given, the game is about this run and
    makes no new run. ``feedback`` is the text about the last answer; ``go_on`` clears it.
    """

    seed: int
    run: Run | None
    answered: int = 0
    score: float = 0.0
    streak: int = 0
    top_streak: int = 0
    feedback: str = ""
    recorded: Trace | None = None

    @property
    def place(self) -> int:
        """The index of the shown question. It changes only when ``go_on`` is called."""
        return self.answered - bool(self.feedback)

    def go_on(self) -> None:
        """Go on to the next question."""
        self.feedback = ""

    def answer(self, question: Question, guess: float) -> None:
        gained = question.score(guess)
        self.answered, self.score = self.answered + 1, self.score + gained
        self.streak = self.streak + 1 if gained >= _GOOD else 0
        self.top_streak = max(self.top_streak, self.streak)
        which = "outcome_count" if question.place is None else f"outcome_{question.outcome}"
        draw = question.entry.candidates[question.place or 0].uniform
        self.feedback = text_of("page")[which].format(
            odds=f"{question.truth:.2f}", draw=f"{draw:.2f}", accepted=question.outcome,
            score=f"{gained:.0f}",
        )  # fmt: skip


def _chips(question: Question, *, judged: bool) -> str:
    """Return the candidates as coloured Markdown.

    If ``judged`` is False, no verdicts are shown: the candidate in question is blue, and the others
    are grey. If ``judged`` is True, accepted candidates are green, the rejected one is orange, and
    discarded ones are grey.
    """
    chips: list[str] = []
    for place, each in enumerate(question.entry.candidates):
        colour, sign = "blue" if place == question.place else "gray", ""
        if judged:
            colour, sign = _COLOURS.get(each.verdict, "gray"), _SIGNS.get(each.verdict, "")
        chips.append(f":{colour}-background[{sign}{as_text(token_label(each.text))}]")
    return " ".join(chips)


def questions_of(trace: Trace) -> Iterator[Question]:
    """Yield a question for each whole round.

    Two kinds of question alternate: how many candidates are accepted, and whether a certain
    candidate is accepted. The second kind asks about the first tested candidate with an acceptance
    probability below 1 or, if there is none, about the first candidate.
    """
    for number, entry in enumerate(each for each in trace.rounds if each.whole):
        tested = [place for place, each in enumerate(entry.candidates) if each.tested]
        open_ones = [place for place in tested if entry.candidates[place].odds < 1.0]
        yield Question(entry, (open_ones or tested)[0] if number % 2 else None)


def show_guess(recorded: Trace | None = None) -> int:
    """Draw the game and return the longest streak of good guesses.

    Args:
        recorded: The recorded run that the game is about. If None, the game makes a new run.
    """
    table, words = st.container(), text_of("page")
    if recorded is not None:
        game = _recorded_game(recorded)
        with table:
            _show_rounds(game, recorded)
        st.caption(f"{words['rule']}  \n{words['recorded_game']}")
        return game.top_streak
    with st.container(key="guess_seed_box", width=220):
        label, hint = words["seed"], words["seed_hint"]
        seed = st.number_input(label, 0, 9999, 1, key="guess_seed", help=hint, bind="query-params")
    game = _game(int(seed))
    with table:
        _show_game(game)
    st.caption(f"{words['rule']}  \n{words['rounds_of_game']}")
    return game.top_streak


def _game(seed: int) -> Game:
    """Return the session's game. If the seed has changed, start a new game with a new run."""
    game: Game | None = st.session_state.get("game")
    if game is None or game.seed != seed:
        session, config = f"{this_tab().id} guess", replace(_CONFIG, seed=seed)
        run = the_worker().submit(
            session, PairSpec(), _PROMPT, config, baseline=False, kept=False, before_kernels=True
        )
        game = st.session_state["game"] = Game(seed, run)
    return game


def _recorded_game(trace: Trace) -> Game:
    game: Game | None = st.session_state.get("game")
    if game is None or game.recorded is not trace:
        game = st.session_state["game"] = Game(0, None, recorded=trace)
    return game


def _show_game(game: Game) -> None:
    words, made = text_of("page"), game.run
    if made is None or not made.finished:
        redraw_while_busy(False, lambda: made is None or made.finished, lambda over: not over,
                          lambda _: st.info(words["game_waits"]), seconds=0.5)  # fmt: skip
        return
    if made.trace is None:
        show_error(made.error or SpecvizError(words["failed"], remedy=words["other_seed"]))
        return
    _show_rounds(game, made.trace)


def _show_rounds(game: Game, trace: Trace) -> None:
    words, questions = text_of("page"), list(questions_of(trace))
    with st.container(border=True, key="guess_round"):
        if game.place < len(questions):
            _show_round(game, questions[game.place], trace, len(questions))
        else:
            st.success(words["game_over" if game.recorded is None else "recorded_game_over"])
    if game.answered:
        st.markdown(words["score_line"].format(score=f"{game.score / game.answered:.0f}",
                    asked=game.answered, streak=game.streak, best=game.top_streak))  # fmt: skip


def _show_round(game: Game, question: Question, trace: Trace, count: int) -> None:
    words, entry = text_of("page"), question.entry
    st.caption(words["round_of_game"].format(round=f"{game.place + 1:d}", count=count))
    own = [token.text for _, token in emitted_tokens(trace.rounds)]
    seen = [*trace.prompt.token_texts, *own][: entry.context_length][-_SEEN:]
    before = "".join(token_label(each) if each in SPECIAL_TOKENS else each for each in seen)
    st.markdown(f"…{as_text(before)} {_chips(question, judged=bool(game.feedback))}")
    if game.feedback:
        st.markdown(game.feedback)
        st.button(words["next_round"], key="guess_next", type="primary", on_click=game.go_on)
    else:
        _ask(game, question)


def _ask(game: Game, question: Question) -> None:
    words, candidates = text_of("page"), question.entry.candidates
    with st.form("guess", border=False):
        if question.place is None:
            counts = _COUNTS[: len(candidates) + 1]
            guess = st.radio(words["how_many"], counts, horizontal=True, index=None)
        else:
            candidate = candidates[question.place]
            label = words["will_accept"].format(token=as_text(token_label(candidate.text)),
                                           draft=f"{100 * candidate.draft_prob:.0f}")  # fmt: skip
            guess = st.radio(label, _LEVELS, format_func=lambda each: words[_LEVELS[each]],
                             horizontal=True, index=None)  # fmt: skip
        pressed = st.form_submit_button(words["guess"], type="primary")
    if pressed and guess is not None:
        game.answer(question, float(guess))
        st.rerun()
    if pressed:
        st.info(words["choose"])

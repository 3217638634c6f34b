"""What a person asks for in the player of Watch: a fork of the run, or a replay from a moment on.

Each wish has a number, and is heard once. It comes from a browser, so that it may say anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from specviz.errors import ConfigError
from specviz.record.forks import Fork, followed_by, possible_draw
from specviz.record.pairs import spec_of
from specviz.record.trace import RunConfig, Trace
from specviz.store.dataclass_json import MisfitError, fit_to_type
from specviz.ui.session.history import RECORDED, History, ShownRun
from specviz.ui.session.moments import sensible_moment
from specviz.ui.watch.run_without_body import leave_run_without_body
from specviz.ui.widgets.player import player_state
from specviz.worker.parent.client import Run, Worker

T = TypeVar("T", "ForkWish", "MomentWish")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkWish:
    """``draw`` overrules the draw at a place; ``rank`` is that of one of the target's tokens."""

    run: str
    round: int
    place: int
    number: int
    draw: float | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentWish:
    run: str
    at: dict[str, str]
    number: int


def handle_player_events(worker: Worker, history: History, session: str, key: str) -> bool:
    """Do what the player has asked for since; whether the page is to be drawn anew."""
    forked = _new(history, key, "fork", ForkWish)
    if forked is not None and _begin_fork(worker, history, session, forked):
        return True
    return handle_moment(history, key, history.shown().id)


def handle_moment(history: History, key: str, shown: str) -> bool:
    """Whether a moment of the run that is shown was asked for: its replay now opens there."""
    asked = _new(history, key, "moment", MomentWish)
    if asked is None or asked.run != shown:
        return False
    history.open_at(asked.run, sensible_moment(asked.at))
    return True


def can_be_forked(shown: ShownRun, run: Run | None) -> bool:
    """All of its words are there, and its pair can be loaded here."""
    if shown.id == RECORDED:
        return False
    return run is None or run.id != shown.id or (run.decoded and run.state != "failed")


def _new(history: History, key: str, name: str, kind: type[T]) -> T | None:
    try:
        wish = fit_to_type(player_state(key, name), kind)
    except MisfitError:
        return None
    if wish.number == history.heard.get(name):
        return None
    history.heard[name] = wish.number
    return wish


def _begin_fork(worker: Worker, history: History, session: str, wish: ForkWish) -> bool:
    shown, run = history.shown(), history.current
    if wish.run != shown.id or not can_be_forked(shown, run):
        return False
    try:
        config = _forked_config(shown.trace, shown.id, wish)
    except (ConfigError, LookupError):
        return False
    made = next((each for each in history.runs if each.id == shown.id), None)
    spec = made.spec if made is not None else spec_of(shown.trace.pair)
    leave_run_without_body(history)
    fork = worker.submit(session, spec, shown.trace.prompt.text, config)
    history.fork(fork, shown.trace)
    return True


def _forked_config(trace: Trace, run_id: str, wish: ForkWish) -> RunConfig:
    """Raises ConfigError or LookupError for what cannot be forked."""
    if (wish.draw is None) == (wish.rank is None):
        raise LookupError("either a draw or a token is overruled")
    candidate = trace.rounds[wish.round].candidates[wish.place]
    instead = None
    if wish.rank is not None and candidate.insight is not None:
        instead = candidate.insight.target_top.token_ids[wish.rank]
    fork = Fork(
        round=wish.round,
        place=wish.place,
        token_id=candidate.token_id,
        uniform=None if wish.draw is None else possible_draw(wish.draw),
        instead=instead,
        of=run_id,
    )
    return replace(trace.config, forks=followed_by(trace.config.forks, fork))

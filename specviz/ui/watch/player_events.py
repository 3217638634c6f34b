"""Events of the player on Watch: requests to fork the run, and the point at which replays open.

To fork a run is to repeat it with one draw or token changed. Each event has a number and is handled
once. Events come from a browser and are not trusted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TypeVar

from specviz.errors import ConfigError
from specviz.record.forks import Fork, followed_by, possible_draw
from specviz.record.pairs import DEFAULT_PAIR, PairSpec, spec_of
from specviz.record.trace import RunConfig, Trace
from specviz.store.dataclass_json import from_json
from specviz.ui.session.history import RECORDED, History, ShownRun
from specviz.ui.session.moments import valid_moment
from specviz.ui.watch.run_without_body import leave_run_without_body
from specviz.ui.widgets.player import player_state
from specviz.values import Value
from specviz.worker.parent.client import Run, Worker

T = TypeVar("T", "ForkRequest", "MomentRequest")


class ForkRequest(Value):
    """A request to fork a run: to repeat it with a change at one candidate.

    ``draw`` replaces the draw that decided the candidate's verdict. ``rank`` is for temperature 0:
    it chooses one of the target's most probable tokens, which replaces the likeliest token. A valid
    request has either ``draw`` or ``rank``.
    """

    run: str
    round: int
    place: int
    number: int
    draw: float | None = None
    rank: int | None = None


class MomentRequest(Value):
    run: str
    at: dict[str, str]
    number: int


def handle_player_events(worker: Worker, history: History, session: str, key: str) -> bool:
    """Handle new events of the player; return whether the page must be redrawn."""
    fork = _new_request(history, key, "fork", ForkRequest)
    if fork is not None and _begin_fork(worker, history, session, fork):
        return True
    return handle_moment(history, key, history.shown().id)


def handle_moment(history: History, key: str, shown: str) -> bool:
    """Store the point at which replays of the shown run open, if the user chose a new point.

    Return whether the user chose a new point. ``shown`` is the id of the shown run.
    """
    request = _new_request(history, key, "moment", MomentRequest)
    if request is None or request.run != shown:
        return False
    history.open_at(request.run, valid_moment(request.at))
    return True


def can_be_forked(shown: ShownRun, run: Run | None) -> bool:
    """Return whether the run can be forked, that is, whether it was decoded without failure."""
    return run is None or run.id != shown.id or (run.decoded and run.state != "failed")


def _new_request(history: History, key: str, name: str, kind: type[T]) -> T | None:
    try:
        request = from_json(json.dumps(player_state(key, name)), kind)
    except (ValueError, RecursionError):
        return None
    if request.number == history.handled.get(name):
        return None
    history.handled[name] = request.number
    return request


def _begin_fork(worker: Worker, history: History, session: str, request: ForkRequest) -> bool:
    shown, run = history.shown(), history.current
    if request.run != shown.id or not can_be_forked(shown, run):
        return False
    try:
        config = _forked_config(shown.trace, shown.id, request)
    except (ConfigError, LookupError):
        return False
    original = next((each for each in history.runs if each.id == shown.id), None)
    spec = original.spec if original is not None else _as_loaded(spec_of(shown.trace.pair))
    leave_run_without_body(history)
    fork = worker.submit(session, spec, shown.trace.prompt.text, config, before_kernels=True)
    history.fork(fork, shown.trace)
    return True


def _as_loaded(spec: PairSpec) -> PairSpec:
    """Return the specification as Watch loads it: if it names the default pair, drop the name."""
    return replace(spec, name=None) if spec.name == DEFAULT_PAIR else spec


def _forked_config(trace: Trace, run_id: str, request: ForkRequest) -> RunConfig:
    """Return the run's config with the requested change.

    Changes from earlier forks are kept only if they come before the requested change.

    Raises:
        ConfigError: The change is not possible.
        LookupError: The round, candidate or rank does not exist, or the request does not give
            exactly one of draw and rank.
    """
    if (request.draw is None) == (request.rank is None):
        raise LookupError("give either a draw or a token's rank")
    candidate = trace.rounds[request.round].candidates[request.place]
    instead = None
    if request.rank is not None and candidate.insight is not None:
        instead = candidate.insight.target_top.token_ids[request.rank]
    fork = Fork(
        round=request.round,
        place=request.place,
        token_id=candidate.token_id,
        uniform=None if request.draw is None else possible_draw(request.draw),
        instead=instead,
        of=None if run_id == RECORDED else run_id,  # the library does not have the recorded run
    )
    return replace(trace.config, forks=followed_by(trace.config.forks, fork))

"""The player of Watch, which shows the recorded run, a live run, or a finished run.

While a run is in progress or a pair loads, a fragment sends the player its missing rounds several
times a second. Until a run has its first round, the previous run is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.figures.body_words import EARLY_RUN, RUN_WITHOUT_BODY_HINT, spec_words
from specviz.player.payload import (
    ChartPoint,
    RunChoice,
    RunStatus,
    Tour,
    chart_point,
    curves_of,
    payload,
)
from specviz.record.numbers import PROBABILITY, TOKENS
from specviz.record.pairs import DEFAULT_PAIR, pair_title
from specviz.record.trace import PairInfo, Trace
from specviz.tune.methods import method_text
from specviz.ui.session.history import RECORDED, History, ShownRun
from specviz.ui.session.moments import linked_moment
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import this_tab
from specviz.ui.watch.answer import kept_status, show_answer
from specviz.ui.watch.chosen_size import chosen_steps
from specviz.ui.watch.first_body import session_first_body
from specviz.ui.watch.player_events import can_be_forked, handle_player_events
from specviz.ui.watch.run_without_body import ensure_run_without_body, is_making_run_without_body
from specviz.ui.watch.sharing import is_local, link_of
from specviz.ui.widgets.pair_boxes import shown_pair
from specviz.ui.widgets.pair_panel import run_label
from specviz.ui.widgets.player import requested_rounds, show_player
from specviz.worker.parent.client import PairStatus, Worker
from specviz.worker.parent.handles import FINISHED, Run, RunState

_KEY = "player"
_TICK = 0.25  # seconds; with half this interval the browser drops updates
_TICK_WITH_BODIES = 0.5  # runs with bodies take seconds, and each redraw slows the decoder down


def show_run_player(
    worker: Worker, seen: PairStatus, history: History, chosen: RunChoice, tour: Tour
) -> None:
    """Draw the player and keep it up to date.

    ``seen`` is the worker's status at the time when the page's script read it.
    """
    if history.opened_answer is not None:
        show_answer(history.opened_answer, history, _KEY, local=is_local())
        return

    def ensure_runs() -> None:
        ensure_run_without_body(worker, the_library(), this_tab().id, history)

    def draw(status: PairStatus) -> None:
        if handle_player_events(worker, history, this_tab().id, _KEY):
            st.rerun()
        ensure_runs()
        show_player(_player_data(status, history, chosen, tour), key=_KEY)

    ensure_runs()  # first, because a new run makes the page busy
    has_bodies = history.current is not None and history.current.spec.has_bodies
    redraw_while_busy(
        seen,
        worker.status,
        lambda status: _busy_with(status, history),
        draw,
        seconds=_TICK_WITH_BODIES if has_bodies else _TICK,
    )


def _busy_with(status: PairStatus, history: History) -> str:
    """Name the work that may still change the player; empty if there is no such work."""
    run = history.current
    if history.run_without_body is not None:
        return "the pair as it is"
    if run is not None and not run.finished:
        return "the run"
    if run is not None and history.awaits_outlook(run):
        return "the forecast"
    measuring = run is None and status.progress is not None
    return "the pair" if status.preparing or measuring else ""


def _player_data(
    status: PairStatus, history: History, chosen: RunChoice, tour: Tour
) -> dict[str, Any]:
    """Return the player's data.

    The run's state is read before its rounds, so a run that is sent as "done" has all its rounds.
    """
    run = history.current
    state = run.state if run else None
    shown = history.shown()
    request = requested_rounds(_KEY)
    return payload(
        shown.trace,
        _status_of_run(run, state, shown, history)
        if run and state
        else _status_of_pair(status, shown),
        start=history.sent_rounds.next_start(shown.id, len(shown.trace.rounds), request),
        curves=curves_of(shown.trace, shown.figures, shown.outlook),
        points=_chart_points(history, shown),
        chosen=replace(chosen, simulated=chosen_steps(shown.trace.pair)),
        foresees=shown.name is None,
        figures=shown.figures,
        growing=shown.growing,
        so_far=shown.so_far,
        tour=tour if run is None else "never",
        own_speedup=shown.own_speedup,
        forked=shown.forked,
        link=link_of(shown, history),
        moment=linked_moment(),
    )


def _status_of_run(run: Run, state: RunState, shown: ShownRun, history: History) -> RunStatus:
    is_shown = run.id == shown.id
    over = state in FINISHED
    what = _pair_and_device(shown.trace) if is_shown else spec_words(run.spec)
    return RunStatus(
        id=shown.id,
        state=state,
        label=f"{_state_word(run, state)} · {what}",
        detail=run.error.culprit if run.error else _detail(run, state, history),
        remedy=run.error.remedy if run.error else "",
        sentence=_run_sentence(shown.trace, run, state)
        if is_shown
        else _meanwhile(shown, run, over),
        decoded=over or run.decoded,
        waiting=not is_shown and not over,
        forkable=is_shown and can_be_forked(shown, run),
    )


_STATE_WORDS = {
    "loading": "starting",
    "queued": "waiting",
    "running": "live",
    "stopped": "stopped",
    "done": "done",
    "failed": "failed",
}


def _state_word(run: Run, state: RunState) -> str:
    """Return the run's state in one word; "decoded" if only the timing is unfinished."""
    return "decoded" if state == "running" and run.decoded else _STATE_WORDS[state]


def _meanwhile(shown: ShownRun, run: Run, over: bool) -> str:
    """Return a sentence about the newest run, ``run``, while it has no rounds to show.

    The player shows ``shown`` instead, an older run or the recorded run. ``over``: whether the
    newest run has ended.
    """
    if run.config.forks and run.state == "running":
        return "The fork begins. It first repeats the rounds before the change."
    substitute = "the recorded run" if shown.id == RECORDED else "the previous run"
    if not over:
        return f"Until this run starts, the player shows {substitute}."
    return f"The run ended before its first round. The player shows {substitute}."


def _status_of_pair(status: PairStatus, shown: ShownRun) -> RunStatus:
    """Return the status for a saved run or the recorded run.

    For the recorded run, the status also describes the pair: not named, loading, ready or failed.
    """
    if shown.name is not None:
        return _status_of_library_run(shown, shown.name)
    first, shown_now = session_first_body(), shown_pair()
    wanted = first.ready or shown_now
    label, remedy = run_label(status, shown_now), ""
    detail = "no pair is loaded; Run will load this pair" if label == "Run" else f"press {label}"
    if wanted is None:
        detail = "name a target under “The pair”"
    elif status.preparing:
        detail = status.progress.text if status.progress else "loading the pair"
    elif status.spec == wanted and status.error is not None:
        detail, remedy = status.error.culprit, status.error.remedy
    elif status.spec == wanted and status.state == "ready" and label == "Run":
        measuring = f"; {status.progress.text}" if status.progress else ""
        press = "the next run simulates a larger target" if first.ready else "press Run"
        detail = f"ready: {press}{measuring}"
    if first.pending and not remedy:
        detail = f"{detail}; {RUN_WITHOUT_BODY_HINT}"
    return RunStatus(
        id=RECORDED,
        state="recorded",
        label=recorded_label(shown.trace),
        detail=detail,
        remedy=remedy,
        forkable=_has_loaded(status, shown.trace.pair),
    )


def _has_loaded(status: PairStatus, pair: PairInfo) -> bool:
    """Return whether ``pair`` is embedded and loaded, at its real or a simulated size."""
    spec = status.spec
    is_embedded = spec is not None and spec.embedded and (spec.name or DEFAULT_PAIR) == pair.name
    return status.state == "ready" and is_embedded


def _status_of_library_run(shown: ShownRun, name: str) -> RunStatus:
    trace = shown.trace
    return replace(
        kept_status(trace, shown.id, name, _pair_and_device(trace)),
        sentence=_stopped_sentence(len(trace.rounds)) if trace.finish == "stopped" else None,
        forkable=can_be_forked(shown, None),
    )


def _stopped_sentence(rounds: int) -> str:
    return f"Stopped after {rounds} round{'' if rounds == 1 else 's'}: partial results."


def _detail(run: Run, state: RunState, history: History) -> str:
    if is_making_run_without_body(history, run):
        return "now repeating the run at the pair's own size"
    if state == "queued":
        return "next in the queue" if run.place <= 1 else f"number {run.place} in the queue"
    if run.detail and (run.decoded or not run.rounds):
        return run.detail
    if session_first_body().was_early(run):
        return EARLY_RUN
    return _cut_words(run.trace) if state == "done" and run.trace is not None else ""


def _cut_words(trace: Trace) -> str:
    """Return a note on where a chat answer was cut off; empty if the model ended the answer."""
    if not trace.config.chat or trace.finish not in {"length", "context"}:
        return ""
    if trace.finish == "context":
        return "the answer is cut off: the model's context is full"
    return f"the answer is cut off at {len(trace.token_ids)} tokens, the length under More settings"


def _run_sentence(trace: Trace, run: Run, state: RunState) -> str | None:
    rounds = len(trace.rounds)
    plural = "" if rounds == 1 else "s"
    tokens = f"{len(trace.token_ids)} tokens in {rounds} round{plural}"
    if state == "running":
        if trace.baseline is not None:
            return None  # the player shows the speedup so far
        return " ".join(
            [f"{tokens}." if run.decoded else f"{tokens} so far.", *_expected(trace, run)]
        )
    if state == "stopped":
        return _stopped_sentence(rounds)
    if state == "failed":
        return f"The run failed after {rounds} round{plural}: partial results."
    return None


def _expected(trace: Trace, run: Run) -> Iterator[str]:
    """Yield a sentence on the expected acceptance, if other texts give an estimate.

    Yield nothing if the run has step costs: then the player can draw throughput curves.
    """
    outlook = run.outlook
    tau = outlook.tau(trace.config.gamma) if outlook else None
    if outlook is None or tau is None or trace.step_costs is not None:
        return
    yield (
        f"Expected from {outlook.num_texts} other texts ({outlook.kind}): α "
        f"{PROBABILITY.bare(outlook.alpha)} and {TOKENS.bare(tau)} tokens per round."
    )


def _pair_and_device(trace: Trace) -> str:
    where = trace.environment.device_name if trace.environment.device != "cpu" else "CPU"
    pair = trace.pair
    method = "" if trace.config.draft_method.drafts_with else method_text(trace.config)
    parts = (pair_title(pair.name), method, pair.chosen_weights, pair.body_sizes, where)
    return " · ".join(each for each in parts if each)


def recorded_label(trace: Trace) -> str:
    return f"recorded · {_pair_and_device(trace)}"


def _chart_points(history: History, shown: ShownRun) -> list[ChartPoint]:
    seen = [each for each in history.shown_runs() if each.trace.pair == shown.trace.pair]
    seen = [each for each in seen if each.id != shown.id] + [shown]
    points = [chart_point(each.trace, each.figures, current=each.id == shown.id) for each in seen]
    return [point for point in points if point is not None]

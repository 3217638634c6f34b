"""The panel to name, check and load a pair: embedded, on this machine, from the Hub, or by path.

Without a draft, the panel names a target alone. A check reads only small files. A run always uses
the models that the panel shows.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

import streamlit as st

from specviz.access.roles import Action
from specviz.errors import ConfigError
from specviz.figures.body_words import spec_words
from specviz.local_models.chat_templates import place_has_chat
from specviz.local_models.searching import hub_snapshot
from specviz.record.numbers import SIZE, time_text, times
from specviz.record.pairs import CHAT_PAIR, LoadPart, PairCheck, PairSpec
from specviz.ui.session.body_rooms import known_room
from specviz.ui.session.machine_models import expected_load_of, found_model, lists_models
from specviz.ui.session.model_places import refusal_of, require_open
from specviz.ui.session.person import may
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.worker import given_pair, refused_check, the_worker
from specviz.ui.widgets.pair_boxes import (
    bodies_were_chosen,
    keep_pair,
    show_pair_boxes,
    shown_pair,
)
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.worker.parent.client import Check, PairStatus, Worker

_REQUESTED = "pair asked for"
_READY = "pair that was ready"
_CHECK = "pair check"
_CHATS = "pairs with chat"
_TICK = 0.5  # seconds
_SHORTEST_PART = 0.05  # seconds: shorter parts of loading are not listed


def active_spec(status: PairStatus) -> PairSpec:
    """Return the pair that a click requested last, or the embedded pair before the first click.

    If the requested pair could not be loaded, return the last pair that was loaded. For people who
    may load no pair, return the loaded pair.
    """
    if not may(Action.LOAD):
        return given_pair(status)
    previous = st.session_state.get(_READY, PairSpec())
    requested = st.session_state.get(_REQUESTED, previous)
    if status.spec == requested and status.state == "ready":
        st.session_state[_READY] = requested
    return previous if status.spec == requested and status.state == "failed" else requested


def pair_of_page() -> tuple[Worker, PairStatus, PairSpec]:
    """Return the worker, its status, and the page's pair.

    The page's pair is the pair that the controls name. If they name none, it is ``active_spec``.
    """
    worker = the_worker()
    status = worker.status()
    return worker, status, shown_pair() or active_spec(status)


def has_chat(status: PairStatus, spec: PairSpec) -> bool:
    """Return whether the target has a chat template.

    If the model is in a folder, a file, Ollama or the Hub cache, its files are read. (A check of a
    Hub model downloads its small files to the cache.) For any other model, the result is False
    until the model has been loaded once. If others can reach the dashboard, no files are read, so
    the result is False for every model that is neither embedded nor loaded.
    """
    known: dict[PairSpec, bool] = st.session_state.setdefault(_CHATS, {})
    if status.spec == spec and status.state == "ready":
        known[spec] = status.has_chat
    if spec in known:
        return known[spec]
    if spec.target is None:
        return spec.embedded_target == CHAT_PAIR
    model = found_model(spec.target)
    if model is not None:
        return model.facts.chat
    return lists_models() and _file_has_chat(os.path.expanduser(spec.target))


def _file_has_chat(place: str) -> bool:
    """Return whether a model has a chat template; cached until its file or folder changes."""
    try:
        return _kept_has_chat(place, os.stat(hub_snapshot(place) or place).st_mtime_ns)
    except (OSError, ValueError):  # such as the name of a model of Ollama
        return bool(place_has_chat(place))


@functools.lru_cache(maxsize=64)
def _kept_has_chat(place: str, changed: int) -> bool:
    del changed
    return bool(place_has_chat(place))


def num_layers(spec: PairSpec) -> int | None:
    """Return the target's number of layers; None if it is not known yet."""
    room, model = known_room(spec), found_model(spec.target)
    if room is not None and room.target is not None:
        return room.target.shape.layers
    return model.facts.layers if model is not None else None


def run_label(status: PairStatus, shown: PairSpec | None) -> str:
    """Return the button's label: "Run", or "Load … and run" if the pair must be loaded first."""
    if shown is None or shown == active_spec(status):
        return "Run"
    return f"Load {_short(shown)} and run"


def pair_for_run(shown: PairSpec | None) -> PairSpec:
    """Make the shown pair this tab's pair, and return it.

    Raises:
        SpecvizError: If no pair is named, or the pair may not be opened.
    """
    if shown is None:
        raise ConfigError(
            "There is no model to run.",
            remedy="Name a target under “The pair”, or choose “Embedded”.",
        )
    require_open(shown)
    use_pair(shown)
    return shown


def use_pair(spec: PairSpec) -> None:
    """Use the pair for this tab's next runs."""
    keep_pair(spec)
    st.session_state[_REQUESTED] = spec


def show_pair_panel(worker: Worker, status: PairStatus) -> None:
    if may(Action.LOAD):
        show_pair_boxes()
        shown = shown_pair()
        if shown is not None:
            _show_actions(worker, status, shown)
    else:
        st.caption("Only an owner of this dashboard may load another pair.")
    _show_status(worker, status)


def _show_actions(worker: Worker, status: PairStatus, wanted: PairSpec) -> None:
    loading = status.preparing and wanted == active_spec(status)
    if loading or (status.state == "ready" and status.spec == wanted):
        return
    if not wanted.embedded:
        st.button(
            "Check", key="check_pair", width="stretch", on_click=_check, args=(worker, wanted)
        )
        checked = st.session_state.get(_CHECK)
        if checked and checked[0] == wanted:
            _show_check(checked[1])
    st.button(
        f"Load {_short(wanted)}", key="load_pair", width="stretch", on_click=_load,
        args=(worker, wanted),
    )  # fmt: skip
    if (expected := expected_load_of(wanted)) is not None:
        st.caption(expected.sentence)


def _check(worker: Worker, wanted: PairSpec) -> None:
    st.session_state[_CHECK] = (wanted, worker.check(wanted))


def _load(worker: Worker, wanted: PairSpec) -> None:
    if error := refusal_of(wanted):
        st.session_state[_CHECK] = (wanted, refused_check(error))
        return
    use_pair(wanted)
    bodies_were_chosen()
    worker.prepare(wanted)


def _short(spec: PairSpec) -> str:
    if spec.has_bodies:
        return "the simulated size"
    if spec.embedded:
        is_chat = spec.embedded_target == CHAT_PAIR
        words = "the chat model" if is_chat else "the embedded target"
        return f"{words} with its head" if spec.head else words if is_chat else "the embedded pair"
    return "this pair" if spec.has_draft else "this model"


def _show_check(check: Check) -> None:
    def report(done: bool) -> None:
        if not done:
            st.caption("Reading configurations and tokenizers…")
        elif check.error is not None:
            show_error(check.error)
        elif check.result is not None:
            _report(check.result)

    def done() -> bool:
        return check.done

    redraw_while_busy(done(), done, lambda over: not over, report, seconds=_TICK)


def _report(found: PairCheck) -> None:
    lines = [_vocabulary_text(found)] if found.draft is not None else []
    if found.size_ratio is not None:
        lines.append(size_words(found.size_ratio))
    if found.memory_needed is not None:
        free = "" if found.memory_free is None else f" of {SIZE.shown(found.memory_free)} free"
        lines.append(f"Memory: {SIZE.shown(found.memory_needed)}{free}.")
    fetch = found.target.bytes_to_fetch + (found.draft.bytes_to_fetch if found.draft else 0)
    lines.append(f"To download: {SIZE.shown(fetch)}." if fetch else "Nothing to download.")
    show = st.warning if found.fits is False else st.success
    show(" ".join([*lines, *map(as_text, found.notices)]))


def _vocabulary_text(found: PairCheck) -> str:
    if found.shared_tokens is None:
        return f"Same vocabulary: {found.vocabulary:,} tokens."
    return (
        f"Shared vocabulary: {found.shared_tokens:,} of the target's {found.vocabulary:,} tokens."
    )


def size_words(ratio: float) -> str:
    """Return a sentence on the ratio of the target's parameters to the draft's."""
    if ratio > 1.05:
        return f"The target is {times(ratio)} as large as the draft."
    if ratio > 0.95:
        return (
            "The draft is as large as the target, so a draft step takes as long as a target step."
        )
    return "The draft is larger than the target, so a draft step takes longer than a target step."


def _show_status(worker: Worker, seen: PairStatus) -> None:
    def panel(status: PairStatus) -> None:
        if status.preparing:
            _show_progress(worker, status)
        else:
            _show_rest(worker, status)

    redraw_while_busy(seen, worker.status, lambda status: status.preparing, panel, seconds=_TICK)


def _show_rest(worker: Worker, status: PairStatus) -> None:
    if status.state == "failed" and status.error is not None and _is_ours(status.spec):
        show_error(status.error)
    elif status.state == "ready":
        memory = "" if status.memory_bytes is None else f" · {SIZE.shown(status.memory_bytes)}"
        name = spec_words(status.spec) if status.spec else "the pair"
        took = total_text(status.parts)
        st.caption(f"“{as_text(name)}” is loaded{took}{memory}", help=parts_text(status.parts))
        for notice in status.notices if _is_ours(status.spec) else ():  # a notice may name a path
            st.caption(as_text(notice))
        if not may(Action.LOAD):
            return
        with st.container(horizontal=True):
            st.button("Unload", key="unload_pair", type="tertiary", on_click=worker.unload)
            st.button(
                "Measure step costs again", key="measure_again", type="tertiary",
                on_click=lambda: worker.prepare(active_spec(worker.status()), fresh=True),
                help="Discards the saved step costs of this pair and measures them again. c, v and "
                    "the forecast depend on the step costs.",
            )  # fmt: skip
    else:
        st.caption("No pair is loaded.")


def total_text(parts: Sequence[LoadPart]) -> str:
    total = sum(each.seconds for each in parts)
    return f" (in {f'{total:.1f} s' if total < 10 else time_text(total)})" if parts else ""


def parts_text(parts: Sequence[LoadPart]) -> str | None:
    """Return the parts of loading with their times, one part per line, for a tooltip.

    Parts shorter than ``_SHORTEST_PART`` are left out. If none is left, the result is None.
    """
    slow = [each for each in parts if each.seconds >= _SHORTEST_PART]
    lines = [f"{each.seconds:.1f} s: {as_text(each.text)}" for each in slow]
    return "\n\n".join(lines) or None


def _is_ours(spec: PairSpec | None) -> bool:
    """Return whether this tab requested the pair, or the pair is the default of every tab."""
    return spec in (st.session_state.get(_REQUESTED), PairSpec())


def _show_progress(worker: Worker, status: PairStatus) -> None:
    progress = status.progress
    text = progress.text if progress else "loading the pair"
    share = 0.0
    if progress and progress.total_bytes:
        share = min(1.0, (progress.done_bytes or 0) / progress.total_bytes)
    st.progress(share, text=f":small[{as_text(text)}]")
    if may(Action.LOAD):
        st.button(
            "Stop loading", key="cancel_loading", type="tertiary", on_click=worker.cancel_loading
        )

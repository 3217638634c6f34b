"""The controls of a load sweep: loads, measuring times, prompts and further addresses.

The engine, its baseline and the sampling settings come from the page's sidebar. The link contains
all settings except further addresses and the user's prompts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from specviz.errors import ConfigError, SpecvizError
from specviz.load.order import MOST_REQUESTS, LoadOrder, lanes_of
from specviz.load.planning import check_budget, words_of_most
from specviz.record.load_run import LoadLane, LoadMode, LoadSettings
from specviz.record.numbers import counted, time_text
from specviz.record.prompts import SuiteItem
from specviz.servers.address import SERVER_KEY, is_local
from specviz.ui.servers.controls import Choices
from specviz.ui.servers.places import Place, place_at
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.ui.widgets.prompt_boxes import choose_items
from specviz.values import Value

_LINKED = "query-params"
_MODES: dict[str, LoadMode] = {"closed loop": "closed", "open loop": "open"}
_CLOSED, _OPEN = _MODES
_USERS, _FIRST_USERS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8)
_RATES, _FIRST_RATES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (0.5, 1.0, 2.0)
_MOST_ADDRESSES = 4  # besides the sidebar's
_NUMBER, _LEVELS = 148, 520  # pixels: a number box, the box of levels
_MODE_HELP = (
    "In a closed loop, each user sends a prompt when the previous answer has ended. In an open "
    "loop, requests are sent on a schedule, and latencies are counted from the scheduled time."
)
_BUDGET_HELP = (
    "The budget is the longest time that the whole sweep may take. A pilot of A B B A blocks shows "
    "how many blocks a narrow interval needs. If these do not fit the budget, fewer are run."
)


class LoadChoices(Value):
    """The sweep that the controls describe, or the error that prevents it."""

    order: LoadOrder | None = None
    error: SpecvizError | None = None


def choose_load(choices: Choices) -> LoadChoices:
    """Draw the controls, and return the chosen sweep.

    If no server is identified, the result contains neither a sweep nor an error.
    """
    with st.container(key="load_controls", gap="small"):
        mode, levels = _choose_levels()
        settings = _choose_windows(choices, mode, levels)
        problems: list[SpecvizError] = []
        suite, items = _choose_prompts(problems, chat=settings.chat)
        more = _choose_addresses()
    problems += [each.error for each in more if each.error is not None]
    server, baseline = choices.server, choices.baseline
    if server is None or server.info is None:
        return LoadChoices()
    if problems:
        return LoadChoices(error=problems[0])
    places = [server, *([baseline] if baseline is not None else []), *more]
    try:
        _refuse_unconfirmed(places)
        order = LoadOrder(
            servers=(server.info, *(each.info for each in more if each.info is not None)),
            alone=baseline.info if baseline is not None else None,
            items=items,
            settings=replace(settings, suite=suite, prompts=len(items)),
            allow_remote=any(not is_local(each.address) for each in places),
        )
        check_budget(order)
    except SpecvizError as error:
        return LoadChoices(error=error)
    return LoadChoices(order=order)


def show_plan(order: LoadOrder) -> None:
    """Show what the sweep compares, its addresses, and its maximum number of requests."""
    lanes = lanes_of(order)
    st.caption(as_text(f"{lanes_text(lanes)} {sent_text(order)}"))
    if all(each.kind != "alone" for each in lanes):
        st.warning(
            "There is no speedup to measure: this engine cannot turn speculation off for a single "
            "request. Give the address of the same model without speculation in the sidebar."
        )
    if any(is_local(each.info.address) for each in lanes):
        st.warning(
            f"The engine and this program share the {os.cpu_count() or 1:d} cores of this machine. "
            "The client's work slows the engine, especially with many users."
        )


def lanes_text(lanes: Sequence[LoadLane]) -> str:
    """Return a sentence that lists what a sweep compares: engines with or without speculation."""
    named = "; ".join(f"{each.label} at {each.info.address}{_how(each)}" for each in lanes)
    return f"{counted(len(lanes), 'lane')}: {named}."


def _how(lane: LoadLane) -> str:
    return ", speculation turned off per request" if lane.switched_off else ""


def sent_text(order: LoadOrder) -> str:
    """Return a sentence on a sweep's maximum number of requests, its addresses and its budget."""
    return f"Sends {words_of_most(order)}, within {time_text(order.settings.budget)}."


def _choose_levels() -> tuple[LoadMode, tuple[float, ...]]:
    with st.container(horizontal=True, vertical_alignment="top", key="load_levels"):
        chosen = st.segmented_control(
            "Load", list(_MODES), default=_CLOSED, key="load_mode", bind=_LINKED, help=_MODE_HELP
        )
        if chosen == _OPEN:
            rates = st.multiselect(
                "Requests per second", _RATES, default=list(_FIRST_RATES), key="load_rates",
                bind=_LINKED, format_func=lambda each: f"{each:g}", width=_LEVELS,
            )  # fmt: skip
            return "open", tuple(sorted(rates))
        users = st.multiselect(
            "Users at the same time", _USERS, default=list(_FIRST_USERS), key="load_users",
            bind=_LINKED, width=_LEVELS,
        )  # fmt: skip
        return "closed", tuple(float(each) for each in sorted(users))


def _choose_windows(choices: Choices, mode: LoadMode, levels: tuple[float, ...]) -> LoadSettings:
    with st.container(horizontal=True, vertical_alignment="bottom", key="load_windows"):
        seconds = st.number_input(
            "Seconds per window", 1, 600, 10, key="load_seconds", bind=_LINKED, width=_NUMBER
        )
        ramp = st.number_input(
            "Ramp, seconds", 0, 60, 2, key="load_ramp", bind=_LINKED, width=_NUMBER,
            help="Before and after the window, the load runs but is not counted in the results.",
        )  # fmt: skip
        budget = st.number_input(
            "Budget, minutes", 1, 24 * 60, 15, key="load_budget", bind=_LINKED,
            width=_NUMBER, help=_BUDGET_HELP,
        )  # fmt: skip
        requests = st.number_input(
            "Most requests", 100, MOST_REQUESTS, 10_000, 100, key="load_requests", bind=_LINKED,
            width=_NUMBER, help="The sweep ends when it has sent this many requests.",
        )  # fmt: skip
    asked = choices.settings
    return LoadSettings(
        mode=mode, levels=levels, seconds=float(seconds), ramp=float(ramp), budget=60.0 * budget,
        max_new_tokens=asked.max_new_tokens, temperature=asked.temperature, top_k=asked.top_k,
        top_p=asked.top_p, seed=asked.seed, chat=asked.chat, ignore_eos=True,
        most_requests=int(requests),
    )  # fmt: skip


def _choose_prompts(
    problems: list[SpecvizError], *, chat: bool
) -> tuple[str, tuple[SuiteItem, ...]]:
    """Draw the choice of prompts; return the suite's name and its prompts."""
    try:
        return choose_items("load_suite", chat=chat)
    except SpecvizError as error:
        problems.append(error)
        return "", ()


def _choose_addresses() -> tuple[Place, ...]:
    """Draw the box of further addresses; return the servers at these addresses."""
    with st.expander("More addresses", key="load_more"):
        typed = st.text_area(
            "Servers with another γ, one address per line", key="load_addresses",
            persist_state="session", height=96, placeholder="http://127.0.0.1:8001",
            help="The same model with another number of candidates per round. Each server is "
            "a lane.",
        )  # fmt: skip
        lines = [line.strip() for line in typed.splitlines() if line.strip()]
        if len(lines) > _MOST_ADDRESSES:
            show_error(
                ConfigError(
                    f"{len(lines)} further addresses are given.",
                    remedy=f"Give up to {_MOST_ADDRESSES}.",
                )
            )
        return tuple(
            place_at(line, f"load_more_{place}", SERVER_KEY, what="Prompts go")
            for place, line in enumerate(lines[:_MOST_ADDRESSES])
        )


def _refuse_unconfirmed(places: Sequence[Place]) -> None:
    for each in places:
        if each.error is not None:
            raise each.error
        if each.info is None:
            raise ConfigError(
                f"The requests to {each.address} are not confirmed.",
                remedy="Tick the box of this address, or press “Connect”.",
            )

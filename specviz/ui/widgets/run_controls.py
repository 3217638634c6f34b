"""The controls of a run: three in view, the others under More settings.

All but a prompt of one's own stand in the link. A change of any of them asks for a new run, unless
that is switched off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from specviz.errors import ConfigError, SpecvizError
from specviz.player.payload import RunChoice
from specviz.record.drafters import methods_for
from specviz.record.forks import forks_text, parse_forks
from specviz.record.limits import CONTROLS
from specviz.record.prompts import kind_of
from specviz.record.trace import RunConfig
from specviz.ui.widgets.method_boxes import WayBoxes, method_of, with_method
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.prompt_boxes import PromptBoxes

_LINKED = "query-params"
_RESTART = "restart asked"
_DROPPED = "dropped from the link"
FORKS = "forks"  # in the link
_PROMPT = PromptBoxes(linked=True)


def _ask_restart() -> None:
    st.session_state[_RESTART] = True
    st.session_state[_DROPPED] = {}
    st.query_params.pop(FORKS, None)  # with other settings it is another run


_WAY = WayBoxes(
    drafters=methods_for(has_draft=True),
    ends=CONTROLS,
    options={"bind": _LINKED, "on_change": _ask_restart},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the controls say."""

    prompt: str
    config: RunConfig

    @property
    def of_a_run(self) -> RunChoice:
        return RunChoice(config=self.config, prompt=self.prompt, kind=kind_of(self.prompt))


def choose_run(*, has_chat: bool) -> Choices:
    """Draw the controls and read them."""
    prompt = _PROMPT.choose(_ask_restart)
    gamma = st.slider(
        "Candidates a round, γ", *CONTROLS["gamma"].whole_ends, 5, key="gamma", bind=_LINKED,
        on_change=_ask_restart,
    )  # fmt: skip
    temperature = st.slider(
        "Temperature", *CONTROLS["temperature"].ends, 0.7, 0.05, key="temperature", bind=_LINKED,
        on_change=_ask_restart,
        help="0 is greedy: both models always choose their likeliest token.",
    )  # fmt: skip
    with st.expander("More settings", key="more", bind=_LINKED):
        more = _more_settings(has_chat=has_chat)
        said = {name: st.query_params.get(name) for name in ("rule", "num_drafts")}
        way = _WAY.choose()
        _tell_dropped({name: text for name, text in said.items() if text != str(way[name])})
        st.toggle("Run again when a setting changes", True, key="live", bind=_LINKED)
    config = with_method({"gamma": gamma, "temperature": round(temperature, 2), **more}, way)
    config = _forked(config)
    if not st.session_state["live"]:
        restart_is_settled()
    return Choices(prompt=prompt, config=config)


def _tell_dropped(said: dict[str, str | None]) -> None:
    """What the link says and no box can say; told until a setting changes."""
    known: dict[str, str | None] = st.session_state.setdefault(_DROPPED, said)
    for name in ("rule", "num_drafts"):
        if text := known.get(name):
            st.warning(f"The link has {name}={as_text(text[:40])}, which is unknown and left out.")


def _forked(config: RunConfig) -> RunConfig:
    """With the forks that the link names."""
    said = st.query_params.get(FORKS)
    if not said:
        return config
    try:
        forked = replace(config, forks=parse_forks(said))
    except ConfigError as error:
        st.warning(f"The link's fork is left out. {as_text(str(error))}")
        return config
    with st.container(horizontal=True, vertical_alignment="center", key="linked_fork"):
        st.caption(f"The next run is forked at {forked.forks[-1].words}.", width="content")
        st.button("Leave the fork out", key="leave_fork", type="tertiary", on_click=_leave_fork)
    return forked


def _leave_fork() -> None:
    st.query_params.pop(FORKS, None)


def restart_is_asked() -> bool:
    """Whether a setting has changed, and that is to start a new run."""
    return bool(st.session_state.get(_RESTART))


def restart_is_settled() -> None:
    """Call this once the page has acted on a change.

    Until then the wish to restart is kept: Streamlit may end a script before it gets that far.
    """
    st.session_state[_RESTART] = False


def _more_settings(*, has_chat: bool) -> dict[str, Any]:
    length = st.slider(
        "Length, tokens", *CONTROLS["max_new_tokens"].whole_ends, 128, 8, key="length",
        bind=_LINKED, on_change=_ask_restart,
        help="A run ends earlier when the models' context is full.",
    )  # fmt: skip
    top_k = st.number_input(
        "Top-k", *CONTROLS["top_k"].whole_ends, 0, key="top_k", bind=_LINKED,
        on_change=_ask_restart,
        help="Both models choose among their k likeliest tokens only. 0 is off.",
    )  # fmt: skip
    top_p = st.slider(
        "Top-p", *CONTROLS["top_p"].ends, 1.0, 0.05, key="top_p", bind=_LINKED,
        on_change=_ask_restart,
        help="Both models choose only among the likeliest tokens that together have this "
        "probability. 1 is off.",
    )  # fmt: skip
    seed = st.number_input(
        "Seed", *CONTROLS["seed"].whole_ends, 0, key="seed", bind=_LINKED, on_change=_ask_restart
    )
    settings: dict[str, Any] = {
        "max_new_tokens": length,
        "top_k": int(top_k),
        "top_p": round(top_p, 2),
        "seed": int(seed),
        "ignore_eos": st.toggle(
            "Go on after the text has ended", key="ignore_eos", bind=_LINKED,
            on_change=_ask_restart,
            help="Decodes up to the full length, whatever the models write.",
        ),
    }  # fmt: skip
    if has_chat:
        settings["chat"] = st.toggle(
            "Chat template", key="chat", bind=_LINKED, on_change=_ask_restart
        )
    return settings


def take_over(prompt: str, config: RunConfig) -> None:
    """Set the controls, before they are drawn, to the settings of a run. Starts nothing."""
    assert not out_of_reach(config)
    _PROMPT.put(prompt)
    st.session_state["more"] = True  # what is set while it is closed would not be seen in it
    for name, value in _values_of(config).items():
        st.session_state[name] = value
    if config.forks:
        st.query_params[FORKS] = forks_text(config.forks)
    else:
        _leave_fork()


def out_of_reach(config: RunConfig) -> tuple[str, ...]:
    """Which settings of a run are out of range of the controls."""
    beyond = [
        "length" if name == "max_new_tokens" else name
        for name, reach in CONTROLS.items()
        if getattr(config, name) not in reach
    ]
    own = ["a drafter of your own"] if config.draft_method.own else []
    return (*beyond, *own, *(["stop strings"] if config.stop else []))


def _values_of(config: RunConfig) -> dict[str, Any]:
    """The settings by the keys of their controls; those that a rule takes only where it is on."""
    names = ("gamma", "temperature", "top_k", "top_p", "seed", "ignore_eos", "chat")
    own = {name: getattr(config, name) for name in names}
    return {"length": config.max_new_tokens} | own | method_of(config)


def linked_settings(config: RunConfig) -> dict[str, str]:
    """The settings of a run as the link says them."""
    values = {name: _linked(value) for name, value in _values_of(config).items() if value != ""}
    return values | ({FORKS: forks_text(config.forks)} if config.forks else {})


def _linked(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def refuse_empty(prompt: str) -> None:
    """Raises SpecvizError for a prompt without words."""
    if not prompt.strip():
        raise SpecvizError("The prompt is empty.", remedy="Write a few words, or choose a preset.")

"""The controls of a run: three are always visible, the others are under More settings.

The link contains all values except a custom prompt. Changing a value requests a new run, unless the
toggle *Run again when a setting changes* is off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from specviz.errors import ConfigError, SpecvizError
from specviz.figures.symbols import SYMBOLS
from specviz.player.payload import RunChoice
from specviz.record.drafters import DRAFT_METHODS, DRAFTER_KEYS, MODEL, methods_for
from specviz.record.forks import forks_text, parse_forks
from specviz.record.limits import CONTROLS
from specviz.record.prompts import kind_of
from specviz.record.trace import RunConfig
from specviz.ui.session.run_limits import show_run_limits
from specviz.ui.widgets.method_boxes import MethodBoxes, method_of, with_method
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.prompt_boxes import PromptBoxes
from specviz.values import Value

# The values are in the link. If another page has set a control's value and the first script run
# that draws the control is interrupted, Streamlit forgets the value; ``persist_state`` repeats it.
_LINKED: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
_RESTART = "restart asked"
_DROPPED = "dropped from the link"
FORKS = "forks"  # query parameter
_TEMPERATURE_KEY, _TEMPERATURE = "temperature", 0.7
_CHAT, _WATCHED_CHAT = "chat", "chat on Watch"
_PROMPT = PromptBoxes(linked=True)


def _ask_restart() -> None:
    st.session_state[_RESTART] = True
    st.session_state[_DROPPED] = {}
    st.query_params.pop(FORKS, None)  # forks refer to a run with the previous settings


class Choices(Value):
    """The values of the controls.

    ``detects_chat``: whether the run looks for a chat template after the target is loaded, and uses
    a template that it finds. It is False if the page already knows that the target has a template,
    or if the user or the link has switched the template off.
    """

    prompt: str
    config: RunConfig
    detects_chat: bool = False

    @property
    def of_a_run(self) -> RunChoice:
        return RunChoice(
            config=self.config,
            prompt=self.prompt,
            kind=kind_of(self.prompt),
            detects_chat=self.detects_chat,
        )


def choose_run(*, has_chat: bool, draft: str, layers: int | None) -> Choices:
    """Draw the controls and return their values.

    Args:
        has_chat: Whether the target has a chat template.
        draft: The pair's kind of draft.
        layers: The target's number of layers, if known.
    """
    drafters, drafter_key = methods_for(draft), DRAFTER_KEYS[draft]
    _take_linked_drafter(drafter_key, drafters)
    prompt = _PROMPT.choose(_ask_restart, chat=has_chat and bool(st.session_state.get(_CHAT, True)))
    gamma = st.slider(
        "Candidates per round, γ", *CONTROLS["gamma"].whole_ends, 5, key="gamma", **_LINKED,
        on_change=_ask_restart, help=SYMBOLS["gamma"].sentence,
    )  # fmt: skip
    temperature = st.slider(
        "Temperature", *CONTROLS["temperature"].ends, _TEMPERATURE, 0.05, key=_TEMPERATURE_KEY,
        **_LINKED,
        on_change=_ask_restart,
        help="0 is greedy: both models always choose their most likely token.",
    )  # fmt: skip
    with st.expander("More settings", key="more", bind="query-params"):
        more = _more_settings(has_chat=has_chat)
        linked = {name: st.query_params.get(name) for name in ("rule", "num_drafts")}
        method = MethodBoxes(
            drafters=drafters,
            ends=CONTROLS,
            options={**_LINKED, "on_change": _ask_restart},
            key=lambda name: drafter_key if name == "drafter" else name,
            layers=layers,
        ).choose()
        _warn_dropped({name: text for name, text in linked.items() if text != str(method[name])})
        st.toggle("Run again when a setting changes", True, key="live", **_LINKED)
    show_run_limits()
    config = with_method({"gamma": gamma, "temperature": round(temperature, 2), **more}, method)
    config = _forked(config)
    if not st.session_state["live"]:
        clear_restart()
    wants_chat = st.query_params.get(_CHAT) != "false" and bool(st.session_state.get(_CHAT, True))
    st.session_state[_WATCHED_CHAT] = wants_chat
    return Choices(prompt=prompt, config=config, detects_chat=wants_chat and not has_chat)


def watched_temperature() -> float:
    """Return the temperature chosen on Watch, which is the initial value on other pages."""
    return round(st.session_state.get(_TEMPERATURE_KEY, _TEMPERATURE), 2)


def watched_chat() -> bool:
    """Return Watch's setting for the chat template, which is the initial value on other pages."""
    return bool(st.session_state.get(_WATCHED_CHAT, True))


def choose_chat_template(key: str, hint: str | None = None) -> bool:
    """Draw the setting *Chat template* on a page other than Watch, and return its value.

    Its initial value is the setting on Watch.
    """
    start_like_watch(key, watched_chat(), True)
    return st.toggle("Chat template", True, key=key, bind="query-params", help=hint)


def start_like_watch(key: str, watched: object, default: object) -> None:
    """Set a linked control to Watch's value, unless it or the URL has a value."""
    if key in st.session_state or key in st.query_params or watched == default:
        return
    st.session_state[key] = watched
    with contextlib.suppress(StreamlitAPIException):  # the control was drawn before
        st.query_params[key] = (
            f"{watched:g}" if isinstance(watched, float) else str(watched).lower()
        )


def _take_linked_drafter(key: str, drafters: Sequence[str]) -> None:
    """Use the link's drafter if it fits the pair and the user has not chosen a drafter yet.

    A choice that the user made for another kind of pair does not count.
    """
    linked = st.query_params.get(DRAFTER_KEYS[MODEL])
    known = key in st.session_state or key in st.query_params
    if linked and not known and (linked in drafters or linked not in DRAFT_METHODS):
        st.session_state[key] = linked


def _warn_dropped(linked: dict[str, str | None]) -> None:
    """Warn about the link's invalid values until a setting changes."""
    dropped: dict[str, str | None] = st.session_state.setdefault(_DROPPED, linked)
    for name in ("rule", "num_drafts"):
        if text := dropped.get(name):
            st.warning(f"Ignored {name}={as_text(text[:40])} in the link: not a known value.")


def _forked(config: RunConfig) -> RunConfig:
    """Return the config with the link's forks (changed draws or tokens), and draw a note.

    Invalid forks are ignored.
    """
    linked = st.query_params.get(FORKS)
    if not linked:
        return config
    try:
        forked = replace(config, forks=parse_forks(linked))
    except ConfigError as error:
        st.warning(f"Ignored the fork in the link. {as_text(str(error))}")
        return config
    with st.container(horizontal=True, vertical_alignment="center", key="linked_fork"):
        st.caption(f"The next run is forked at {forked.forks[-1].words}.", width="content")
        st.button("Remove the fork", key="leave_fork", type="tertiary", on_click=_remove_fork)
    return forked


def _remove_fork() -> None:
    st.query_params.pop(FORKS, None)


def restart_requested() -> bool:
    """Return whether a changed setting requests a new run."""
    return bool(st.session_state.get(_RESTART))


def clear_restart() -> None:
    """Clear the request for a new run once the page has handled it.

    The request stays stored until then, because Streamlit may end a script run early.
    """
    st.session_state[_RESTART] = False


def _more_settings(*, has_chat: bool) -> dict[str, Any]:
    length = st.slider(
        "Length, tokens", *CONTROLS["max_new_tokens"].whole_ends, 128, 8, key="length",
        **_LINKED, on_change=_ask_restart,
        help="A run ends earlier when the models' context is full.",
    )  # fmt: skip
    top_k = st.number_input(
        "Top-k", *CONTROLS["top_k"].whole_ends, 0, key="top_k", **_LINKED,
        on_change=_ask_restart,
        help="Both models choose only among their k most likely tokens. 0 is off.",
    )  # fmt: skip
    top_p = st.slider(
        "Top-p", *CONTROLS["top_p"].ends, 1.0, 0.05, key="top_p", **_LINKED,
        on_change=_ask_restart,
        help="Both models choose only among the most likely tokens that together have this "
        "probability. 1 is off.",
    )  # fmt: skip
    seed = st.number_input(
        "Seed", *CONTROLS["seed"].whole_ends, 0, key="seed", **_LINKED, on_change=_ask_restart
    )
    settings: dict[str, Any] = {
        "max_new_tokens": length,
        "top_k": int(top_k),
        "top_p": round(top_p, 2),
        "seed": int(seed),
        "ignore_eos": st.toggle(
            "Continue after the end of the text", key="ignore_eos", **_LINKED,
            on_change=_ask_restart,
            help="Decodes up to the full length, even after an end-of-text token.",
        ),
    }  # fmt: skip
    if has_chat:
        settings["chat"] = st.toggle(
            "Chat template", True, key=_CHAT, **_LINKED, on_change=_ask_restart,
            help="Puts the prompt into the target's chat template.",
        )  # fmt: skip
    return settings


def apply_settings(prompt: str, config: RunConfig) -> None:
    """Set the controls to a run's settings, before the controls are drawn. Start no run."""
    assert not unsupported_settings(config)
    _PROMPT.put(prompt)
    st.session_state["more"] = True  # controls set while the expander is closed would not update
    for name, value in _values_of(config).items():
        st.session_state[name] = value
    for kind, key in DRAFTER_KEYS.items():
        if config.draft_method.drafts_with in ("", kind):
            st.session_state[key] = config.drafter
    if config.forks:
        st.query_params[FORKS] = forks_text(config.forks)
    else:
        _remove_fork()


def unsupported_settings(config: RunConfig) -> tuple[str, ...]:
    """Return the settings of a run that the controls cannot represent."""
    out_of_range = [
        "length" if name == "max_new_tokens" else name
        for name, allowed in CONTROLS.items()
        if getattr(config, name) not in allowed
    ]
    own = ["custom drafter"] if config.draft_method.own else []
    return (*out_of_range, *own, *(["stop strings"] if config.stop else []))


def _values_of(config: RunConfig) -> dict[str, Any]:
    """Return the run's settings by control key, without settings that its method ignores."""
    names = ("gamma", "temperature", "top_k", "top_p", "seed", "ignore_eos", "chat")
    own = {name: getattr(config, name) for name in names}
    return {"length": config.max_new_tokens} | own | method_of(config)


def linked_settings(config: RunConfig) -> dict[str, str]:
    """Return the settings of a run as query parameters."""
    values = {name: _linked(value) for name, value in _values_of(config).items() if value != ""}
    return values | ({FORKS: forks_text(config.forks)} if config.forks else {})


def _linked(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def refuse_empty(prompt: str) -> None:
    """Raise SpecvizError if the prompt is empty or contains only whitespace."""
    if not prompt.strip():
        raise SpecvizError("The prompt is empty.", remedy="Write some text, or choose a preset.")


def put_prompt(prompt: str) -> None:
    """Set the prompt before its controls are drawn; leave the other settings unchanged."""
    _PROMPT.put(prompt)

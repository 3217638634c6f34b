"""The controls of a run: three in view, the others under More settings.

Every choice but the prompt stands in the link. A change of any of them asks for a new run,
where the switch for that is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from specviz.errors import SpecvizError
from specviz.presets import Preset, read_presets
from specviz.trace import RunConfig

_LINKED = "query-params"
_RESTART = "restart asked"
_OWN = "my own words"
_LONGEST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the page asks for now."""

    prompt: str
    config: RunConfig
    restart: bool  # a setting has just changed, and runs follow the settings


def choose_run(*, has_chat: bool, max_context: int | None) -> Choices:
    """Draw the controls where the caller stands, and read them."""
    prompt = _choose_prompt()
    gamma = st.slider(
        "Draft tokens a round, γ", 1, 16, 5, key="gamma", bind=_LINKED, on_change=_ask_restart
    )
    temperature = st.slider(
        "Temperature", 0.0, 2.0, 0.7, 0.05, key="temperature", bind=_LINKED, on_change=_ask_restart,
        help="0 is greedy: both models put everything on their likeliest token.",
    )  # fmt: skip
    with st.expander("More settings", key="more", bind=_LINKED):
        more = _more_settings(has_chat=has_chat, max_context=max_context)
    config = RunConfig(gamma=gamma, temperature=round(temperature, 2), **more)
    asked = bool(st.session_state.pop(_RESTART, False))
    return Choices(prompt=prompt, config=config, restart=asked and st.session_state["live"])


def _preset_name(preset: Preset) -> str:
    return f"{preset.kind} · {preset.title}"


def _ask_restart() -> None:
    st.session_state[_RESTART] = True


def _choose_prompt() -> str:
    presets = {_preset_name(preset): preset for preset in read_presets()}
    linked = st.query_params.get("prompt")
    names = list(presets)
    first = _OWN if linked is not None else names[0]
    if "preset" not in st.session_state:
        st.session_state["preset"] = first
        st.session_state["prompt"] = linked if linked is not None else presets[names[0]].text

    def fill() -> None:
        chosen = st.session_state["preset"]
        if chosen in presets:
            st.session_state["prompt"] = presets[chosen].text
        _ask_restart()

    def own() -> None:
        if st.session_state["prompt"] != _text_of(presets.get(st.session_state["preset"])):
            st.session_state["preset"] = _OWN
        _ask_restart()

    st.selectbox("Prompt", [*names, _OWN], key="preset", on_change=fill)
    return st.text_area(
        "Prompt text", key="prompt", height=110, label_visibility="collapsed", on_change=own
    )


def _text_of(preset: Preset | None) -> str | None:
    return preset.text if preset else None


def _more_settings(*, has_chat: bool, max_context: int | None) -> dict[str, Any]:
    longest = min(_LONGEST, max_context or _LONGEST)
    length = st.slider(
        "Length, tokens", 8, longest, 128, 8, key="length", bind=_LINKED, on_change=_ask_restart
    )
    top_k = st.number_input(
        "Top-k", 0, 100_000, 0, key="top_k", bind=_LINKED, on_change=_ask_restart,
        help="Only the k likeliest tokens of each model. 0 is off.",
    )  # fmt: skip
    top_p = st.slider(
        "Top-p", 0.05, 1.0, 1.0, 0.05, key="top_p", bind=_LINKED, on_change=_ask_restart,
        help="Only the likeliest tokens that together reach this mass. 1 is off.",
    )  # fmt: skip
    seed = st.number_input("Seed", 0, 2**31, 0, key="seed", bind=_LINKED, on_change=_ask_restart)
    settings: dict[str, Any] = {
        "max_new_tokens": length,
        "top_k": int(top_k),
        "top_p": round(top_p, 2),
        "seed": int(seed),
        "drafter": _choose_drafter(),
        **_choose_rule(),
        "ignore_eos": st.toggle(
            "Run on past the end of the text", key="ignore_eos", bind=_LINKED,
            on_change=_ask_restart,
        ),
    }  # fmt: skip
    if has_chat:
        settings["chat"] = st.toggle(
            "Chat template", key="chat", bind=_LINKED, on_change=_ask_restart
        )
    st.toggle("Run again when a setting changes", True, key="live", bind=_LINKED)
    return settings


def _choose_drafter() -> str:
    return st.selectbox(
        "Drafter", ["model", "prompt-lookup"], key="drafter", bind=_LINKED,
        on_change=_ask_restart,
        help="The draft model; or prompt lookup, which copies what followed the same words "
        "earlier and needs no model.",
    )  # fmt: skip


def _choose_rule() -> dict[str, Any]:
    rule = st.selectbox(
        "Verification rule", ["lossless", "over-accept"], key="rule", bind=_LINKED,
        on_change=_ask_restart,
        help="Lossless: the text follows the target's law exactly. Over-accept is LOSSY: it "
        "lets more candidates stand than the target would.",
    )  # fmt: skip
    if rule == "lossless":
        return {"rule": rule}
    epsilon = st.slider(
        "ε, added to the target", 0.0, 1.0, 0.1, 0.01, key="epsilon", bind=_LINKED,
        on_change=_ask_restart,
        help="Accept with min(1, (target + ε) / draft). The text no longer follows the target.",
    )  # fmt: skip
    residual = st.selectbox(
        "Recovered from", ["leftover", "target", "draft"], key="residual", bind=_LINKED,
        on_change=_ask_restart,
    )  # fmt: skip
    return {"rule": rule, "epsilon": round(epsilon, 2), "residual": residual}


def refused(prompt: str) -> SpecvizError | None:
    """What is wrong with a prompt before anything is asked of a model."""
    if prompt.strip():
        return None
    return SpecvizError("The prompt is empty.", remedy="Write a few words, or choose a preset.")

"""The controls of Servers: the server, the prompt and the settings.

The link contains all settings except keys and a custom prompt.
"""

from __future__ import annotations

import streamlit as st

from specviz.record.limits import CONTROLS
from specviz.record.server_run import ServerSettings
from specviz.servers.address import BASELINE_KEY, SERVER_KEY
from specviz.ui.servers.places import Place, choose_place, model_named, probe_again
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.prompt_boxes import PromptBoxes
from specviz.values import Value

_LINKED = "query-params"
_PROMPT = PromptBoxes("server_", linked=True)
_MODEL = "server_model"


class Choices(Value):
    """The values of the controls. ``server`` is None while there is no address."""

    server: Place | None
    baseline: Place | None
    prompt: str
    settings: ServerSettings


def choose() -> Choices:
    """Draw the controls and return their values."""
    server = choose_place(
        "Address of the engine", "server", SERVER_KEY, what="Prompts go", model=_wanted_model(),
    )  # fmt: skip
    if server is not None and len(server.models) > 1:
        _choose_model(server)
    baseline = choose_place(
        "The same model without speculation", "baseline", BASELINE_KEY, what="Prompts go",
        hint="Optional: the address of a second server, on which the target alone is timed.",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center", key="server_keys"):
        st.caption(
            f"API keys come from the environment variables `{SERVER_KEY}` and `{BASELINE_KEY}` of "
            "the dashboard. Each key is sent only to the addresses in its own list, "
            f"`{SERVER_KEY}_FOR` or `{BASELINE_KEY}_FOR`.",
        )
        if server is not None or baseline is not None:
            st.button("Check again", key="server_look", type="tertiary", on_click=probe_again)
    prompt = _PROMPT.choose()
    settings = _choose_settings()
    return Choices(server=server, baseline=baseline, prompt=prompt, settings=settings)


def _wanted_model() -> str | None:
    """Return the chosen model. Before the selection box is drawn, this is the link's model."""
    return st.session_state.get(_MODEL) or st.query_params.get(_MODEL)


def _choose_model(server: Place) -> None:
    if st.session_state.get(_MODEL) not in server.models:
        st.session_state[_MODEL] = model_named(_wanted_model(), server.models)
    st.selectbox(
        "Model", server.models, key=_MODEL, bind=_LINKED, format_func=as_text,
        placeholder=as_text(server.models[0]),
    )  # fmt: skip


def _choose_settings() -> ServerSettings:
    length = st.slider(
        "Max new tokens", *CONTROLS["max_new_tokens"].whole_ends, 128, 8,
        key="server_length", bind=_LINKED,
    )  # fmt: skip
    temperature = st.slider(
        "Temperature", *CONTROLS["temperature"].ends, 0.0, 0.05, key="server_temperature",
        bind=_LINKED, help="0 is greedy: the engine always picks the most likely token.",
    )  # fmt: skip
    with st.expander("More settings", key="server_more"):
        top_k = st.number_input(
            "Top-k", *CONTROLS["top_k"].whole_ends, 0, key="server_top_k", bind=_LINKED,
            help="Sample only from the k most likely tokens. 0 is off.",
        )  # fmt: skip
        top_p = st.slider(
            "Top-p", *CONTROLS["top_p"].ends, 1.0, 0.05, key="server_top_p", bind=_LINKED
        )
        seed = st.number_input(
            "Seed", *CONTROLS["seed"].whole_ends, 0, key="server_seed", bind=_LINKED
        )
        chat = st.toggle("As a chat message", key="server_chat", bind=_LINKED)
        ignore_eos = st.toggle(
            "Continue after the end of the text", key="server_ignore_eos", bind=_LINKED,
            help="The engine ignores the end-of-text token and writes until *Max new tokens*, if "
            "it supports this.",
        )  # fmt: skip
    return ServerSettings(
        max_new_tokens=length, temperature=round(temperature, 2), top_k=int(top_k),
        top_p=round(top_p, 2), seed=int(seed), chat=chat, ignore_eos=ignore_eos,
    )  # fmt: skip

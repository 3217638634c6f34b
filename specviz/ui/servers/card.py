"""A box that describes an engine: name, model, and what the engine reports."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.server_words import SPECULATES, reported_and_missing
from specviz.record.server_run import ENGINES, ServerInfo
from specviz.servers.engines import engine_of
from specviz.ui.widgets.plain_text import as_text


def show_card(info: ServerInfo) -> None:
    reported, missing = reported_and_missing(info)
    with st.container(border=True, key="server_card", gap="small"):
        st.markdown(f"**{as_text(info.title)}** · {as_text(info.model)} {_badges(info)}")
        st.caption(
            f"The engine reports: {_listed(reported) or 'only text'}.  \nThe engine does not "
            f"report: {_listed(missing)}."
        )


def _badges(info: ServerInfo) -> str:
    colour = {True: "green", False: "gray", None: "orange"}[info.capabilities.speculates]
    gamma = f", {info.gamma} candidates per round" if info.gamma else ""
    badges = [f":{colour}-badge[{SPECULATES[info.capabilities.speculates]}{gamma}]"]
    engine = engine_of(info)
    if not engine.run_here:
        badges.append(f":orange-badge[{as_text(engine.known_from)}]")
    return " ".join(badges)


def _listed(words: Sequence[str]) -> str:
    return "; ".join(as_text(each) for each in words)


def show_introduction() -> None:
    """Explain what to enter if no address is given yet."""
    st.info(
        "Give the address of a serving engine that is running: "
        f"{', '.join(each for name, each in ENGINES.items() if name != 'openai')} or any "
        "OpenAI-compatible server. Before you press Ask, the page sends only requests that "
        "identify the engine. If a link filled in the address, the page sends nothing there until "
        "you press Connect."
    )

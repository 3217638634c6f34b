"""The card of an engine: what it is, what it tells, and what it keeps to itself."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.server_words import SPECULATES, reported_and_missing
from specviz.record.server_run import ENGINES, ServerInfo
from specviz.servers.engines import engine_of
from specviz.ui.widgets.plain_text import as_text


def show_card(info: ServerInfo) -> None:
    told, kept = reported_and_missing(info)
    with st.container(border=True, key="server_card", gap="small"):
        st.markdown(f"**{as_text(info.title)}** · {as_text(info.model)} {_badges(info)}")
        st.caption(f"Tells {_listed(told) or 'text alone'}.  \nKeeps to itself {_listed(kept)}.")


def _badges(info: ServerInfo) -> str:
    colour = {True: "green", False: "gray", None: "orange"}[info.capabilities.speculates]
    gamma = f", γ {info.gamma}" if info.gamma else ""
    badges = [f":{colour}-badge[{SPECULATES[info.capabilities.speculates]}{gamma}]"]
    engine = engine_of(info)
    if not engine.run_here:
        badges.append(f":orange-badge[{as_text(engine.known_from)}]")
    return " ".join(badges)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(as_text(each) for each in words)


def show_none() -> None:
    """What the page is for, as long as there is no address."""
    st.info(
        "Give the address of a serving engine that is running: "
        f"{', '.join(each for name, each in ENGINES.items() if name != 'openai')} or any "
        "OpenAI-compatible server. Before you press Ask, only the questions that tell what engine "
        "it is are sent; to an address that came with a link, none."
    )

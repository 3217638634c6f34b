"""The toggle for runs on a cluster, drawn only if Ray is installed."""

from __future__ import annotations

import streamlit as st

from specviz.ui.session.cluster_jobs import has_ray


def choose_cluster(key: str, what: str) -> bool:
    return has_ray() and st.toggle(
        "On a cluster", key=key, persist_state="session",
        help=f"{what} on the devices of the Ray cluster at the address in the environment "
            "variable `RAY_ADDRESS`. Without this variable, a device of this machine is used.",
    )  # fmt: skip

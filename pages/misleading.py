"""When the speedup formula misleads: clusters, tails, batches, temperature, estimates of α."""

import streamlit as st

from specviz.ui.session.history import session_history
from specviz.ui.shell import require_shell
from specviz.ui.theory.misleading.sections import (
    show_batch,
    show_clustering,
    show_estimates,
    show_tail,
    show_temperature,
)
from specviz.ui.theory.speed.speedup_points import session_runs
from specviz.ui.widgets.page_parts import show_heading

require_shell()

show_heading(
    "When the formula misleads",
    "The speedup formula assumes that all candidates have the same, independent acceptance "
    "probability and that verification costs no extra time. And it gives only a mean.",
)
clusters, tail, batch, temperature, estimates = st.tabs(
    ["Clusters", "Mean and tail", "Batch and context", "Temperature", "Estimating α"],
    key="misleading_tab",
    bind="query-params",
)
if clusters.open:
    with clusters:
        show_clustering()
if tail.open:
    with tail:
        show_tail()
if batch.open:
    with batch:
        show_batch()
if temperature.open:
    with temperature:
        show_temperature()
if estimates.open:
    with estimates:
        show_estimates(session_runs(session_history()))

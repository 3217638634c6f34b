"""The step times of the tab's runs, by the size of the model."""

from __future__ import annotations

import streamlit as st

from specviz.record.bodies import NO_BODY, ModelShape, parameters_of
from specviz.record.body_costs import BodyRoom
from specviz.record.trace import ModelInfo
from specviz.ui.session.history import HISTORY, History
from specviz.ui.session.machine_models import ITEMSIZES


def measured_steps(room: BodyRoom) -> dict[tuple[str, str], float]:
    """Return the measured seconds of a step, by role (draft or target) and simulated size.

    Each time is from the tab's newest run at that size. A run counts only if it has the same models
    as ``room``, with the same types of weights, and was not made before the kernels were compiled.
    """
    history: History | None = st.session_state.get(HISTORY)
    found: dict[tuple[str, str], float] = {}
    for run in history.shown_runs() if history is not None else ():
        trace = run.trace
        if ITEMSIZES.get(trace.environment.dtype) != room.itemsize:
            continue
        if not trace.environment.has_kernels:
            continue
        # A draft step of a tree computes all nodes of one depth, so it takes longer than the step
        # for one token that the sliders describe.
        draft = trace.pair.draft if trace.config.is_chain else None
        for role, info in (("target", trace.pair.target), ("draft", draft)):
            seconds = getattr(run.figures.steps, role)
            if (
                info is not None
                and bool(info.weights) == is_quantised(getattr(room, role), body_of(info))
                and seconds
                and is_of(info, getattr(room, role))
            ):
                found[role, body_of(info)] = seconds
    return found


def is_of(info: ModelInfo, shape: ModelShape | None) -> bool:
    """Return whether ``shape`` has as many parameters as the model ``info`` at its real size."""
    own = info.body.own_parameters if info.body else info.parameters
    return shape is not None and parameters_of(shape.shape, shape) == own


def is_quantised(shape: ModelShape | None, body: str) -> bool:
    return shape is not None and shape.bytes_per_weight(body) is not None


def body_of(info: ModelInfo) -> str:
    return info.body.name if info.body else NO_BODY

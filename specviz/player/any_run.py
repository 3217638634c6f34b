"""The player's data for a finished run of specviz or of another engine."""

from __future__ import annotations

from specviz.figures.body_words import SpeedupWithoutBody
from specviz.figures.metrics import Metrics, metrics
from specviz.player.payload import JsonObject, RunStatus, chart_point, curves_of, payload
from specviz.player.server_payload import server_payload
from specviz.record.server_run import AnyTrace, dispatch
from specviz.record.trace import Trace


def payload_of_run(
    trace: AnyTrace,
    *,
    run_id: str,
    state: str,
    label: str,
    figures: Metrics | None = None,
    own_speedup: SpeedupWithoutBody | None = None,
    forked: Trace | None = None,
) -> JsonObject:
    """Return the data of a finished run.

    Args:
        figures: The metrics of the trace, if already computed.
        own_speedup: The pair's speedup at its real size, if the run has simulated sizes.
        forked: The run from which this run was forked.
    """
    status = RunStatus(id=run_id, state=state, label=label)

    def own(run: Trace) -> JsonObject:
        known = figures or metrics(run)
        point = chart_point(run, known, current=True)
        return payload(
            run, status, curves=curves_of(run, known, None), points=[point] if point else [],
            figures=known, own_speedup=own_speedup, forked=forked,
        )  # fmt: skip

    return dispatch(trace, own, lambda answer: server_payload(answer, status))

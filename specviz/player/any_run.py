"""The player's data for a complete run of specviz or of another engine."""

from __future__ import annotations

from specviz.player.payload import JsonObject, payload_of_trace
from specviz.player.server_payload import server_payload_of
from specviz.record.server_run import AnyTrace, ServerTrace


def payload_of_run(trace: AnyTrace, *, run_id: str, state: str, label: str) -> JsonObject:
    if isinstance(trace, ServerTrace):
        return server_payload_of(trace, run_id=run_id, state=state, label=label)
    return payload_of_trace(trace, run_id=run_id, state=state, label=label)

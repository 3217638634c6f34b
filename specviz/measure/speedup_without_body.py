"""Find the stored speedup of a pair at its real size, for a run with simulated sizes."""

from __future__ import annotations

from dataclasses import replace

from specviz.errors import StoreError
from specviz.figures.metrics import metrics
from specviz.record.trace import ModelInfo, PairInfo, Trace
from specviz.store import Library
from specviz.store.rows import Query

_LOOKED_AT = 20  # newest runs with the same settings


def kept_speedup_without_body(library: Library, trace: Trace) -> float | None:
    """Return the speedup of a stored run that matches ``trace`` but has no simulated sizes.

    If there are several such runs, the newest counts. If there is none, return None.
    """
    config = trace.config
    query = Query(
        pairs=(trace.pair.name,),
        gammas=(config.gamma,),
        temperatures=(config.temperature,),
        drafters=(config.drafter,),
        rules=(config.rule,),
        limit=_LOOKED_AT,
    )
    for row in library.find(query):
        if row.summary.speedup is None:
            continue
        try:
            kept = library.open(row.id)
        except StoreError:
            continue
        if _is_same_run_without_bodies(kept, trace):
            return metrics(kept, intervals=False).speedup_observed
    return None


def _is_same_run_without_bodies(kept: Trace, trace: Trace) -> bool:
    return (
        not kept.pair.has_bodies
        and _weights(kept.pair) == _weights(trace.pair)
        and replace(kept.config, record=True) == replace(trace.config, record=True)
        and kept.prompt.token_ids == trace.prompt.token_ids
        and _machine(kept) == _machine(trace)
    )


def _weights(pair: PairInfo) -> tuple[str, str | None]:
    draft: ModelInfo | None = pair.draft
    return pair.target.weights_sha256, draft.weights_sha256 if draft else None


def _machine(trace: Trace) -> tuple[object, ...]:
    where = trace.environment
    return where.device, where.device_name, where.cpu, where.dtype, where.has_kernels

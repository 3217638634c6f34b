"""Record the load sweep that the tab "Under load" shows first, with a real vLLM.

``python -m tests.load.record_sweep`` starts two servers with the embedded pair, one of them without
a draft. Both have the same core, and this process another one. The machine should be quiet.
"""

from __future__ import annotations

import gzip
from dataclasses import replace

from specviz.load.load_job import LoadJob, LoadOrder
from specviz.load.stored import sweep_to_json
from specviz.record.load_run import LoadBlock, LoadRequest, LoadSettings, LoadSweep
from specviz.record.prompts import PRESETS, SHIPPED_SUITES
from specviz.servers.finding import find_server
from specviz.ui.servers.load.section import RECORDED
from tests.servers import real_engines

SETTINGS = LoadSettings(
    levels=(1, 2, 4, 8, 16), seconds=4.0, ramp=1.5, budget=900.0, max_new_tokens=64
)
_DIGITS = 4  # of seconds: a tenth of a millisecond


def record_sweep() -> None:
    most = round(max(SETTINGS.levels))
    with (
        real_engines.vllm(at_once=most) as address,
        real_engines.vllm(speculative=False, at_once=most) as alone,
    ):
        sweep = swept(address, alone, SETTINGS)
    text = sweep_to_json(replace(sweep, blocks=tuple(map(_rounded, sweep.blocks))))
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))


def swept(address: str, alone: str, settings: LoadSettings) -> LoadSweep:
    """Return a complete sweep over two engines; raises the error of a sweep that fails."""
    servers = find_server(address), find_server(alone)
    name = settings.suite or PRESETS
    items = SHIPPED_SUITES[name]()
    order = LoadOrder(
        servers=servers[:1],
        alone=servers[1],
        items=items,
        settings=replace(settings, suite=name, prompts=len(items)),
    )
    job = LoadJob(order, keep=False)
    job.carry_out()
    if job.error is not None:
        raise job.error
    return job.sweep


def _rounded(block: LoadBlock) -> LoadBlock:
    return replace(block, requests=tuple(map(_rounded_request, block.requests)))


def _rounded_request(request: LoadRequest) -> LoadRequest:
    return replace(
        request,
        scheduled=round(request.scheduled, _DIGITS),
        sent=round(request.sent, _DIGITS),
        ended=round(request.ended, _DIGITS),
        arrivals=tuple(round(each, _DIGITS) for each in request.arrivals),
    )


if __name__ == "__main__":
    record_sweep()

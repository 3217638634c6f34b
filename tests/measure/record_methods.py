"""Record the shipped measurements of methods: ``python -m tests.measure.record_methods [PART …]``.

Parts (drafts, blocks, stops) limit what is measured again. The embedded pair continues the same
prompts with every method, alternating between methods, at temperature 1. Stores figures computed
from these runs. Other load on the machine affects only the times.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from os import getloadavg

from specviz import ASSETS
from specviz.figures.method_checks import block_check, rejections_over_drafts
from specviz.figures.recorded_methods import (
    RecordedBlocks,
    RecordedDrafts,
    RecordedStops,
    Recording,
)
from specviz.figures.stopping_reach import reach_over_runs
from specviz.measure.run_makers import InProcessMaker, RunOrder
from specviz.record.pairs import PairSpec
from specviz.record.prompts import Preset, read_presets
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace

FILE = ASSETS / "recorded_ways.json"
BODY = "90M"
OF_A_KIND = 2  # prompts per kind
BUSY = 1.5  # load average, including this process
STOP_REPEATS = 4  # stopping changes where rounds begin, so more runs are needed
_PAIR = PairSpec(name="tinystories", threads=1)
_USUAL = RunConfig(gamma=5, temperature=1.0, max_new_tokens=192, ignore_eos=True, record=False)
_LONG = replace(_USUAL, gamma=12)
DRAFTS = (
    *(replace(_USUAL, num_drafts=number) for number in (1, 2, 4, 8)),
    *(replace(_USUAL, gamma=2, num_drafts=number) for number in (1, 2)),
    replace(_USUAL, branching=(3, 2, 1, 1, 1)),
)
BLOCKS = (replace(_USUAL, rule="block"), _USUAL)
STOPS = (_LONG, replace(_LONG, draft_until="confidence:0.4"), replace(_LONG, draft_until="cost"))


def presets() -> list[Preset]:
    kinds: dict[str, list[Preset]] = {}
    for each in read_presets():
        kinds.setdefault(each.kind, []).append(each)
    return [each for found in kinds.values() for each in found[:OF_A_KIND]]


def made(
    maker: InProcessMaker,
    spec: PairSpec,
    configs: Sequence[RunConfig],
    *,
    repeats: int = 1,
    timed: bool = False,
) -> Iterator[Trace]:
    for seed, preset in enumerate(presets() * repeats):
        for config in configs:
            order = RunOrder(
                label=preset.kind,
                spec=spec,
                prompt=preset.text,
                config=replace(config, seed=seed),
                baseline=timed,
            )
            yield maker.make(order).trace
            print(seed, config, flush=True)


def recording(traces: Sequence[Trace]) -> Recording:
    first = traces[0]
    here, config, body = first.environment, first.config, first.pair.target.body
    texts = sum(replace(each.config, seed=config.seed) == config for each in traces)
    size = f", target at simulated size {BODY}" if body else ""
    busy = ", with other work on the machine" if getloadavg()[1] > BUSY else ""
    depths = {each.config.depth for each in traces}
    gamma = f", γ {config.gamma}" if len(depths) == 1 else ""
    return Recording(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{here.cpu}, one thread, {here.dtype}{busy}",
        runs=f"embedded pair{size}, temperature {config.temperature:g}{gamma}, "
        f"{texts} texts of {config.max_new_tokens} tokens per setting",
    )


def record_drafts(maker: InProcessMaker) -> RecordedDrafts:
    traces = list(made(maker, replace(_PAIR, target_body=BODY), DRAFTS, timed=True))
    return RecordedDrafts(found=rejections_over_drafts(traces), made=recording(traces))


def record_blocks(maker: InProcessMaker) -> RecordedBlocks:
    traces = list(made(maker, _PAIR, BLOCKS))
    found = block_check(
        [each for each in traces if each.config.rule == "block"],
        [each for each in traces if each.config.rule != "block"],
    )
    return RecordedBlocks(found=found, made=recording(traces))


def record_stops(maker: InProcessMaker) -> RecordedStops:
    traces = list(made(maker, _PAIR, STOPS, repeats=STOP_REPEATS))
    found = reach_over_runs(traces)
    assert found is not None
    return RecordedStops(found=found, made=recording(traces))


PARTS = {"drafts": record_drafts, "blocks": record_blocks, "stops": record_stops}


def main(parts: Sequence[str]) -> None:
    os.environ["SPECVIZ_HOME"] = tempfile.mkdtemp()
    maker = InProcessMaker(lambda *_: None, budget=4.0)
    known = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for part in parts or PARTS:
        known[part] = asdict(PARTS[part](maker))
        FILE.write_text(json.dumps(known, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

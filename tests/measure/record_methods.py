"""Record the shipped measurements of methods: ``python -m tests.measure.record_methods [PART …]``.

Parts (drafts, blocks, stops, tasks) limit what is measured again. The embedded pair continues the
same prompts with every method, alternating between methods, at temperature 1; the chat model
answers the prompts of ten tasks at temperatures 0 and 1. Stores figures computed from these runs.
Other load on the machine affects only the times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from os import getloadavg

from specviz import ASSETS
from specviz.figures.method_checks import (
    BlockCheck,
    DraftsPoint,
    block_check,
    rejections_over_drafts,
)
from specviz.figures.paired import Ratio, Spread
from specviz.figures.recorded_methods import Recorded, Recording, TaskPoint
from specviz.figures.stopping_reach import ReachOverRuns, reach_over_runs
from specviz.measure.run_makers import InProcessMaker, RunOrder
from specviz.player.payload import JsonObject
from specviz.record.pairs import CHAT_PAIR, PairSpec
from specviz.record.prompts import Preset, read_presets
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace

FILE = ASSETS / "recorded_ways.json"
BODY = "90M"
OF_A_KIND = 2  # prompts per kind
TEMPERATURES = (0.0, 1.0)  # at which tasks are compared
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


def record_drafts(maker: InProcessMaker) -> Recorded[tuple[DraftsPoint, ...]]:
    traces = list(made(maker, replace(_PAIR, target_body=BODY), DRAFTS, timed=True))
    return Recorded(found=rejections_over_drafts(traces), made=recording(traces))


def record_blocks(maker: InProcessMaker) -> Recorded[BlockCheck]:
    traces = list(made(maker, _PAIR, BLOCKS))
    found = block_check(
        [each for each in traces if each.config.rule == "block"],
        [each for each in traces if each.config.rule != "block"],
    )
    return Recorded(found=found, made=recording(traces))


def record_stops(maker: InProcessMaker) -> Recorded[ReachOverRuns]:
    traces = list(made(maker, _PAIR, STOPS, repeats=STOP_REPEATS))
    found = reach_over_runs(traces)
    assert found is not None
    return Recorded(found=found, made=recording(traces))


def record_tasks(maker: InProcessMaker) -> Recorded[tuple[TaskPoint, ...]]:
    """Record the chat model's acceptance by task; `make chat` installs the model."""
    del maker
    lanes = [f"--lane=temperature={each:g}" for each in TEMPERATURES]
    command = ["compare", f"--pair={CHAT_PAIR}", *lanes, "--tasks", "--max-new-tokens=64"]
    whole = [sys.executable, "-m", "specviz", *command, "--repeats=1", "--threads=1", "--json"]
    return tasks_of(json.loads(subprocess.run(whole, check=True, stdout=subprocess.PIPE).stdout))


def tasks_of(comparison: JsonObject) -> Recorded[tuple[TaskPoint, ...]]:
    """Return the figures by task of a comparison of two temperatures."""
    lanes = comparison["lanes"]
    points = [
        task_point("", lane, lane["intervals"]["alpha_observed"], lane["spreads"]["tau"])
        for lane in lanes
    ]
    points += [
        task_point(kind["kind"], lane, found["alpha_observed"], found["tau"])
        for kind in comparison["kinds"]
        for lane, found in zip(lanes, kind["lanes"], strict=True)
    ]
    settings, here = lanes[0]["settings"], lanes[0]["environment"]
    made = Recording(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{here['cpu']}, one thread, {here['dtype']}",
        runs=f"{CHAT_PAIR}, prompt lookup, γ {settings['gamma']}, {len(comparison['prompts'])} "
        f"prompts, at most {settings['max_new_tokens']} tokens",
    )
    return Recorded(found=tuple(points), made=made)


def task_point(task: str, lane: JsonObject, acceptance: JsonObject, tau: JsonObject) -> TaskPoint:
    return TaskPoint(
        task=task,
        temperature=lane["settings"]["temperature"],
        acceptance=Ratio(**acceptance),
        tau=Spread(**tau),
    )


PARTS = {
    "drafts": record_drafts,
    "blocks": record_blocks,
    "stops": record_stops,
    "tasks": record_tasks,
}


def main(parts: Sequence[str]) -> None:
    os.environ["SPECVIZ_HOME"] = tempfile.mkdtemp()
    maker = InProcessMaker(lambda *_: None, budget=4.0)
    known = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for part in parts or PARTS:
        known[part] = asdict(PARTS[part](maker))
        FILE.write_text(json.dumps(known, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

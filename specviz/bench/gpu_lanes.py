"""The lanes of the bench on a GPU (engines with a method), and which lanes are compared.

The key of a speculative lane ends with its γ (``record 5``). Comparisons name lanes without γ
(``record``), so that one list of comparisons serves every γ; see ``at_gamma``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.bench.lanes import BenchLane, Write, own_lanes, transformers
from specviz.bench.paired_ratios import LaneRatio
from specviz.bench.rivals import Assistance
from specviz.record.trace import RunConfig

if TYPE_CHECKING:
    from specviz.engine import Pair

PLAIN_COMPARISONS = (
    LaneRatio(name="plain_vs_compiled", over="compiled", under="plain"),
    LaneRatio(name="plain_vs_hf_generate", over="hf", under="plain"),
    LaneRatio(name="plain_graphed_vs_eager", over="eager_plain", under="plain"),
)
SPECULATIVE_COMPARISONS = (
    LaneRatio(name="speculative_vs_plain", over="plain", under="record"),
    LaneRatio(name="speculative_vs_hf_assisted_same_gamma", over="hf_fixed", under="record"),
    LaneRatio(name="speculative_vs_hf_assisted_best", over="hf_best", under="record"),
    LaneRatio(name="speculative_graphed_vs_eager", over="eager_record", under="record"),
    LaneRatio(name="record_cost", over="bare", under="record"),
)
# For each target-alone lane, the name of the figure for its share of the memory bandwidth.
SHARES = {
    "plain": "share_plain",
    "compiled": "share_compiled",
    "eager_plain": "share_plain_eager",
    "hf": "share_hf_generate",
}


def gpu_lanes(
    pair: Pair, gammas: Sequence[int], config: RunConfig, best: Assistance, compiled: Write | None
) -> tuple[BenchLane, ...]:
    """Return the lanes, ``plain`` first.

    If the pair has CUDA graphs (``pair.lanes``), specviz's lanes use the graphs, and additional
    "eager" lanes run without graphs. If the pair has no CUDA graphs, there are no "eager" lanes.
    """
    own = tuple(_own(pair, gammas, config, "", pair.info.target.step))
    eager = replace(pair, lanes=None)
    stepwise = tuple(_own(eager, gammas, config, "eager_", "eager")) if pair.lanes else ()
    reference = () if compiled is None else (_lane("compiled", "target alone, compiled", compiled),)
    return (
        *own,
        *(lane for lane in stepwise if not lane.key.startswith("eager_bare")),
        *reference,
        _lane("hf", "transformers generate", transformers(pair, None)),
        *(_assisted(pair, f"hf_fixed {gamma}", same_gamma(gamma), "") for gamma in gammas),
        _assisted(pair, "hf_best", best, "best: "),
    )


def same_gamma(gamma: int) -> Assistance:
    return Assistance(gamma=gamma, threshold=0.0)


def at_gamma(seconds: Mapping[str, Sequence[float]], gamma: int) -> dict[str, Sequence[float]]:
    """Return the seconds of the lanes, with this γ removed from the lanes' keys.

    For γ = 5, the key ``record 5`` becomes ``record``. Keys with another γ or without γ do not
    change.
    """
    return {key.removesuffix(f" {gamma}"): value for key, value in seconds.items()}


def _own(
    pair: Pair, gammas: Sequence[int], config: RunConfig, prefix: str, step: str
) -> Iterator[BenchLane]:
    for number, gamma in enumerate(gammas):
        *speculative, plain = own_lanes(pair, replace(config, gamma=gamma))
        if number == 0:
            yield _lane(f"{prefix}plain", f"target alone, {step}", plain.write)
        for lane in speculative:
            name = f"{lane.name}, {step}, γ {gamma}"
            yield _lane(f"{prefix}{lane.key} {gamma}", name, lane.write)


def _assisted(pair: Pair, key: str, assistance: Assistance, words: str) -> BenchLane:
    return _lane(key, f"transformers assisted, {words}{assistance}", transformers(pair, assistance))


def _lane(key: str, name: str, write: Write) -> BenchLane:
    return BenchLane(key=key, name=name, write=write)

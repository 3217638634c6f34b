"""The catalogue's entries on memory: sizes, bandwidth, and the largest free γ (see `FreeGamma`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from specviz.figures.figure import Figure
from specviz.figures.formulas import (
    bytes_shared,
    free_ends,
    free_numbers,
    share_of,
    step_cost_caveat,
)
from specviz.figures.roofline import FREE
from specviz.record.numbers import COUNT, GAMMA, PERCENT, SIZE

if TYPE_CHECKING:
    from specviz.figures.metrics import Metrics
    from specviz.figures.roofline import Pass, Roofline


def _share(
    name: str, label: str, formula: str, remark: str, part: Callable[[Roofline], Pass | None]
) -> Figure:
    """Return the figure that shows how much of the bandwidth one kind of pass reaches."""

    def made(m: Metrics) -> Pass | None:
        return m.roofline and part(m.roofline)

    return Figure(
        id=name,
        label=label,
        quantity=PERCENT,
        better="higher",
        formula=formula,
        remark=remark,
        numbers=lambda m: bytes_shared(m, made(m)),
        note=lambda m: share_of(made(m)),
    )


MEMORY = (
    Figure(
        id="parameters",
        label="parameters, target",
        short="parameters",
        quantity=COUNT,
        formula="parameters of the target at its simulated size",
        remark="The value is empty without a simulated size",
    ),
    Figure(
        id="step_bytes",
        label="bytes per step",
        short="step",
        quantity=SIZE,
        formula="bytes that the target reads per step: its weights, and the keys and values of "
        "the context",
        remark="A step reads only one row of an input embedding that is not tied to the output "
        "head",
    ),
    _share(
        "bandwidth_share",
        "bandwidth, target step",
        "bytes per step / (target step time · memory bandwidth)",
        "The bandwidth is measured by summing a large array. If the share is well below 100 %, the "
        "target alone could be faster here, so the speedup is overstated. If the share is above "
        "100 %, bytes come from the processor's caches, or the bandwidth was measured on a busy "
        "machine",
        lambda found: found.target,
    ),
    _share(
        "draft_bandwidth_share",
        "bandwidth, draft step",
        "bytes of a draft step / (draft step time · memory bandwidth)",
        "The draft step time is the mean over the steps of a draft phase",
        lambda found: found.draft,
    ),
    _share(
        "verify_bandwidth_share",
        "bandwidth, verification",
        "bytes of a target step / (time to verify γ + 1 tokens · memory bandwidth)",
        "A verification reads as many bytes as a target step, because it reads the weights once, "
        "regardless of how many tokens it verifies",
        lambda found: found.verification,
    ),
    Figure(
        id="free_gamma",
        label="free γ",
        short="free γ",
        quantity=GAMMA,
        better="higher",
        formula=f"largest γ up to which v ≤ {FREE:g}",
        remark="As long as memory bandwidth limits a pass, a pass over more tokens takes no more "
        f"time. The value is 0 if v exceeds {FREE:g} already at γ = 1. v comes from the step "
        "costs, which cover γ up to 16. The value is unknown if its interval covers more than half "
        "of this range",
        numbers=free_numbers,
        caveat=step_cost_caveat,
        note=free_ends,
    ),
)

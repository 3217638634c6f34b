"""A forecast of batches with round numbers: a pass takes 10 ms and 1 ms for every six rows."""

from __future__ import annotations

import math
from typing import Any

from specviz.figures.batch_forecast import batch_speedup, independent_experts
from specviz.record.batch_costs import (
    BatchAcceptance,
    BatchCosts,
    BatchForecast,
    BatchPoint,
    ExpertPoint,
    ExpertReads,
    ExpertRun,
    Grid,
)

BATCHES, CONTEXTS, GAMMAS = (1, 2, 4, 8, 16, 32, 64), (256, 1024, 2016), (1, 2, 5)
MOST_ROWS = 40_000  # of all caches: the largest batches do not fit at the longest context


def grid(seconds_of_a_row: float, rows: int, fixed: float) -> Grid:
    return tuple(
        tuple(
            fixed + seconds_of_a_row * math.ceil(batch * rows / 6) + batch * context * 1e-7
            for context in CONTEXTS
            if batch * context <= MOST_ROWS
        )
        for batch in BATCHES
    )


def batch_costs(row: float = 1e-3) -> BatchCosts:
    return BatchCosts(
        batches=BATCHES,
        contexts=CONTEXTS,
        gammas=GAMMAS,
        draft=(grid(row / 20, 1, 2e-4), grid(row / 20, 2, 2e-4)),
        draft_next=grid(row / 20, 1, 1e-4),
        plain=grid(row, 1, 1e-2),
        verify=tuple(grid(row, gamma + 1, 1e-2) for gamma in GAMMAS),
    )


ACCEPTANCE = BatchAcceptance(alpha=0.7, reached=(0.7, 0.5, 0.35, 0.25, 0.2), rounds=99, other=1e-4)


def batch_forecast(**changes: Any) -> BatchForecast:
    costs = batch_costs()
    points = tuple(
        BatchPoint(
            batch=batch,
            context=60.0,
            forecast=(forecast := batch_speedup(costs, ACCEPTANCE, batch, 60.0, 5)),
            speedup=forecast / 1.05,
            error=0.05,
            low=forecast / 1.1,
            high=forecast,
            compact=forecast / 1.2,
            padded=forecast / 1.3,
            plain=90.0 * batch,
            v=costs.v(batch, 60.0, 5),
            tokens=3.0,
            same_texts=True,
        )
        for batch in BATCHES[:5]
    )
    experts = ExpertReads(
        experts=8,
        per_token=2,
        expert_share=0.9,
        points=tuple(
            ExpertPoint(
                rows=rows,
                experts=independent_experts(8, 2, rows) - 0.2 * (rows > 1),
                independent=independent_experts(8, 2, rows),
                seconds=1 + rows / 4,
            )
            for rows in (1, 2, 4, 6, 9)
        ),
        run=ExpertRun(gamma=5, tokens=3.5, step=2.0, verification=6.1, speedup=0.7),
    )
    given = {
        "created": "2026-01-01T00:00:00+00:00", "pair": "tinystories", "target": "90M",
        "machine": "a processor", "dtype": "float32", "threads": 1, "temperature": 0.0, "gamma": 5,
        "others": 0.01, "costs": costs, "acceptance": ACCEPTANCE, "points": points,
        "clock": "processor", "experts": experts,
    }  # fmt: skip
    return BatchForecast(**given | changes)

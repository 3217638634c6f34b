"""Measure the step costs of batches, and store forecasts that are made from these costs.

The tables of ``step_costs.py`` hold the costs of one sequence. Here, each batch size is measured,
including 1. Verification is measured only for the numbers of tokens that the forecast needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import psutil

from specviz.measure.step_costs import costs_key
from specviz.record.batch_costs import BatchCosts, BatchForecast
from specviz.record.run_config import RunConfig
from specviz.store import save_value
from specviz.store.kept_values import kept_values

if TYPE_CHECKING:
    from specviz.engine import Pair
    from specviz.engine.decoding.batch_timer import BatchTimer, Clock

BATCHES = (1, 2, 4, 8, 16, 32, 64)
GAMMAS = (1, 2, 3, 5, 8)
SHORTEST = 256  # tokens of context
_KIND = "batch-forecasts"
_LATER = 3  # draft steps after the first, in the phases that give the cost of a later step
_PHASES = ((1, 1), (2, 1), (1, 1 + _LATER))  # tokens fed in the first step, candidates drafted
_SAMPLES = 3  # of a phase that takes little time
_FEW, _LONG = 2, 0.3  # so few of one that takes more seconds than this
_SHARE = 0.5  # of the free memory that the caches may take
_LONGEST = 4096  # tokens of context, for models that have no limit
_MARGIN = 32


def contexts_of(pair: Pair) -> tuple[int, ...]:
    """Return the context lengths to measure: ``SHORTEST`` times powers of 4, then the longest."""
    longest = min(pair.max_context or _LONGEST, _LONGEST) - _MARGIN
    found = [SHORTEST]
    while found[-1] * 4 < longest:
        found.append(found[-1] * 4)
    return tuple(each for each in (*found, longest) if each <= longest)


def clock_of(pair: Pair) -> tuple[str, Clock]:
    """Return the name of the clock to use, and the clock.

    With one thread on a CPU, the clock is the processor time, to which other processes add nothing.
    Otherwise, it is the wall-clock time.
    """
    alone = pair.environment.threads == 1 and pair.device.type == "cpu"
    return ("processor", time.process_time) if alone else ("wall", time.perf_counter)


def measure_batch_costs(
    pair: Pair,
    config: RunConfig,
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    gammas: Sequence[int],
    clock: Clock = time.perf_counter,
    say: Callable[[str], None] = lambda _: None,
) -> BatchCosts:
    """Measure the step costs of each batch size, at each context length that fits into memory."""
    from specviz.engine.decoding.batch_timer import BatchTimer

    settings = replace(config, gamma=max(gammas), record=False)
    grids = [list[tuple[float, ...]]() for _ in range(4 + len(gammas))]
    for batch in batches:
        fitting = _fitting(pair, batch, contexts)
        say(f"step costs of {batch} sequences at {len(fitting)} contexts")
        if fitting:
            timer = BatchTimer(pair, settings, batch, fitting[-1], clock)
            columns = [_column(timer, each, gammas) for each in fitting]
        else:
            columns = []
        for index, grid in enumerate(grids):
            grid.append(tuple(each[index] for each in columns))
    plain, one, two, later, *verify = map(tuple, grids)
    return BatchCosts(
        batches=tuple(batches),
        contexts=tuple(contexts),
        gammas=tuple(gammas),
        draft=(one, two),
        draft_next=later,
        plain=plain,
        verify=tuple(verify),
    )


def _column(timer: BatchTimer, context: int, gammas: Sequence[int]) -> tuple[float, ...]:
    """Return the median seconds of a plain step, of draft steps, and of a verification per γ.

    The draft steps are a first step with one token, a first step with two tokens, and a later step.
    Draft phases and verifications alternate as in a run, so that the processor's caches are in the
    same state as in a run. Plain steps come first. The first repetition of each measurement is
    discarded.
    """
    plain, drafts = list[float](), [list[float]() for _ in _PHASES]
    verifications: list[list[float]] = [[] for _ in gammas]
    for number in range(max(len(_PHASES), len(gammas))):
        plain += _row(lambda: (timer.plain_step(context),))[0]
        kind, chosen = number % len(_PHASES), number % len(gammas)
        drafting, verifying = _row(lambda at=(kind, chosen): (
            timer.draft_phase(context, *_PHASES[at[0]]),
            timer.verification(context, gammas[at[1]]),
        ))  # fmt: skip
        drafts[kind] += drafting
        verifications[chosen] += verifying
    one, two, longer = (median(each) for each in drafts)
    later = max(1e-9, (longer - one) / _LATER)
    return median(plain), one, two, later, *(median(each) for each in verifications)


def _row(turn: Callable[[], tuple[float, ...]]) -> list[list[float]]:
    """Call ``turn`` several times; return each phase's times, leaving out the first call."""
    times = [turn() for _ in range(_FEW if sum(turn()) > _LONG else _SAMPLES)]
    return [list(each) for each in zip(*times, strict=True)]


def _fitting(pair: Pair, batch: int, contexts: Sequence[int]) -> list[int]:
    from specviz.engine.model.pass_bytes import pass_bytes

    models = [each for each in (pair.target, pair.draft) if each is not None]
    reads = [pass_bytes(each) for each in models]
    token = sum(each.cache for each in reads if each is not None)
    room = _SHARE * _free_memory(pair)
    return [each for each in contexts if batch * each * token <= room]


def _free_memory(pair: Pair) -> float:
    if pair.device.type == "cuda":
        import torch

        return float(torch.cuda.mem_get_info(pair.device)[0])
    return float(psutil.virtual_memory().available)


def save_batch_forecast(pair: Pair, config: RunConfig, found: BatchForecast) -> None:
    save_value(_KIND, costs_key(pair, config), found)


def newest_batch_forecast() -> BatchForecast | None:
    """Return the newest forecast that is stored on this machine, for any pair."""
    found = kept_values(_KIND, BatchForecast).values()
    return max(found, key=lambda each: each.created, default=None)

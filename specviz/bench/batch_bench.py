"""Benchmark of batches: decode sequences together, and compare the speedup with a forecast.

Every repeat measures all batches in turn. For each batch, it first times the single phases of a
round. Then it decodes the prompts in three ways: plainly; speculatively, dropping the rows of ended
texts (compact); and speculatively, keeping these rows (padded). The forecast uses the phase times
of the same repeat, so a slower machine slows forecast and measurement alike. The forecast takes
its acceptance from single runs of the batch's prompts; the results say whether the batch wrote the
same texts as these single runs. Forecast and measurement both count only the rounds in which all
sequences are running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import takewhile
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from specviz.bench.expert_reads import measure_expert_reads
from specviz.bench.paired_ratios import PairedRatio, paired_ratio
from specviz.figures.batch_forecast import FORECAST_LABEL, batch_map, batch_speedup
from specviz.measure.batch_costs import (
    BATCHES,
    GAMMAS,
    clock_of,
    contexts_of,
    measure_batch_costs,
    save_batch_forecast,
)
from specviz.measure.machine_watch import MachineWatch
from specviz.record.batch_costs import BatchAcceptance, BatchForecast, BatchPoint
from specviz.record.prompts import read_presets
from specviz.record.trace import Round, RunConfig
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair
    from specviz.engine.decoding.batch_timer import Clock

Say = Callable[[str], None]
Texts = Sequence[tuple[int, ...]]

MEASURED = (1, 2, 4, 8, 16)
GAMMA = 5
REPEATS = 6
_LEAST_PROMPTS = 4  # a smaller batch takes several groups of prompts
_NUM_TOKENS = 48


class _Single(Value, eq=False):
    """The text and the rounds of a prompt that was decoded alone."""

    token_ids: tuple[int, ...]
    rounds: tuple[Round, ...]


class _Repeat(Value):
    """One repeat of a batch: seconds per token for each kind of decoding, and the forecast."""

    plain: float
    steady: float  # of the rounds in which all sequences were running
    compact: float
    padded: float
    forecast: float
    v: float
    tokens: float
    same_texts: bool


def run_batch_bench(
    pair: Pair,
    *,
    body: str,
    temperature: float,
    repeats: int,
    quick: bool,
    with_experts: bool,
    say: Say,
) -> dict[str, Any]:
    """Measure batches of several sizes, store the forecast, and return JSON values."""
    from specviz.engine.model.step_batch import require_lean

    require_lean(pair.target_weights)
    config = RunConfig(
        gamma=GAMMA, temperature=temperature, max_new_tokens=24 if quick else _NUM_TOKENS,
        ignore_eos=True, record=False,
    )  # fmt: skip
    watch, (clock_name, clock) = MachineWatch(), clock_of(pair)
    measured = MEASURED[:3] if quick else MEASURED
    prompts = _prompts(pair, max(_LEAST_PROMPTS, measured[-1]))
    say("single runs of all prompts")
    singles = [_single(pair, prompt, replace(config, seed=n)) for n, prompt in enumerate(prompts)]
    points = _points(pair, config, prompts, singles, measured, repeats, clock, say)
    say("the map of batches and contexts")
    costs = measure_batch_costs(
        pair,
        config,
        batches=BATCHES[:4] if quick else BATCHES,
        contexts=contexts_of(pair)[:2] if quick else contexts_of(pair),
        gammas=(2, GAMMA) if quick else GAMMAS,
        clock=clock,
        say=say,
    )
    longest = replace(config, gamma=max(costs.gammas))
    deepest = [_single(pair, each, replace(longest, seed=n)) for n, each in enumerate(prompts)]
    found = BatchForecast(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        pair=pair.name,
        target=body,
        machine=pair.environment.device_name or pair.environment.cpu,
        dtype=pair.environment.dtype,
        threads=pair.environment.threads or 1,
        temperature=temperature,
        gamma=GAMMA,
        others=watch.conditions().others,
        costs=costs,
        acceptance=acceptance_of([each.rounds for each in deepest], longest.gamma),
        points=tuple(points),
        clock=clock_name,
        experts=measure_expert_reads(say) if with_experts else None,
    )
    save_batch_forecast(pair, config, found)
    return {
        "label": FORECAST_LABEL,
        "environment": asdict(pair.environment),
        "forecast": asdict(found),
        "map": [[asdict(point) for point in row] for row in batch_map(found)],
    }


def _points(
    pair: Pair,
    config: RunConfig,
    prompts: Texts,
    singles: Sequence[_Single],
    measured: Sequence[int],
    repeats: int,
    clock: Clock,
    say: Say,
) -> list[BatchPoint]:
    found: dict[int, list[_Repeat]] = {batch: [] for batch in measured}
    for number in range(repeats):
        for batch in measured if number % 2 == 0 else measured[::-1]:
            say(f"repeat {number + 1} of {repeats}: {batch} sequences")
            count = max(batch, _LEAST_PROMPTS)
            found[batch].append(
                _repeat(pair, config, prompts[:count], singles[:count], batch, clock)
            )
    context = _mean_context(prompts, config)
    return [_point(batch, context, each) for batch, each in found.items()]


def _point(batch: int, context: float, repeats: Sequence[_Repeat]) -> BatchPoint:
    def over_plain(kind: str) -> PairedRatio:
        seconds = [getattr(each, kind) for each in repeats]
        return paired_ratio([each.plain for each in repeats], seconds)

    steady = over_plain("steady")
    errors = [each.forecast * each.steady / each.plain for each in repeats]
    return BatchPoint(
        batch=batch,
        context=context,
        forecast=median(each.forecast for each in repeats),
        speedup=steady.value,
        error=median(errors) - 1.0,
        low=steady.low,
        high=steady.high,
        compact=over_plain("compact").value,
        padded=over_plain("padded").value,
        plain=1.0 / median(each.plain for each in repeats),
        v=median(each.v for each in repeats),
        tokens=median(each.tokens for each in repeats),
        same_texts=all(each.same_texts for each in repeats),
    )


def _repeat(
    pair: Pair,
    config: RunConfig,
    prompts: Texts,
    singles: Sequence[_Single],
    batch: int,
    clock: Clock,
) -> _Repeat:
    context = round(_mean_context(prompts, config))
    costs = measure_batch_costs(
        pair, config, batches=(batch,), contexts=(context,), gammas=(config.gamma,), clock=clock
    )
    groups = range(0, len(prompts) // batch * batch, batch)
    rounds = [
        entry
        for first in groups
        for entry in _steady_rounds([each.rounds for each in singles[first : first + batch]])
    ]
    acceptance = acceptance_of([rounds], config.gamma)
    plain = steady = compact = padded = 0.0
    tokens = steady_tokens = 0
    same = True
    for first in groups:
        chosen, seeds = prompts[first : first + batch], range(first, first + batch)
        seconds, count = _time_plain(pair, chosen, config, seeds, clock)
        plain, tokens = plain + seconds, tokens + count
        whole, part, part_tokens, texts = _time_batch(pair, chosen, config, seeds, clock)
        compact, steady = compact + whole, steady + part
        steady_tokens += part_tokens
        padded += _time_batch(pair, chosen, config, seeds, clock, padded=True)[0]
        same = same and texts == [each.token_ids for each in singles[first : first + batch]]
    return _Repeat(
        plain=plain / tokens,
        steady=steady / steady_tokens,
        compact=compact / tokens,
        padded=padded / tokens,
        forecast=batch_speedup(costs, acceptance, batch, context, config.gamma),
        v=costs.v(batch, context, config.gamma),
        tokens=acceptance.tokens(config.gamma),
        same_texts=same,
    )


def _time_plain(
    pair: Pair, prompts: Texts, config: RunConfig, seeds: Sequence[int], clock: Clock
) -> tuple[float, int]:
    from specviz.engine.decoding.batched_run import BatchedPlainRun

    batch = BatchedPlainRun(pair, prompts, config, seeds=seeds)
    began = clock()
    count = sum(token is not None for tokens in batch for token in tokens)
    return clock() - began, count


def _time_batch(
    pair: Pair,
    prompts: Texts,
    config: RunConfig,
    seeds: Sequence[int],
    clock: Clock,
    *,
    padded: bool = False,
) -> tuple[float, float, int, list[tuple[int, ...]]]:
    """Return the total seconds, the seconds and tokens until the first text ends, and the texts."""
    from specviz.engine.decoding.batched_run import BatchedSpeculation

    batch = BatchedSpeculation(pair, prompts, config, seeds=seeds, padded=padded)
    began = clock()
    steady, tokens = 0.0, 0
    for rounds in batch:
        going = [entry for entry in rounds if entry is not None]
        if len(going) == len(prompts) and all(entry.cut is None for entry in going):
            steady = clock() - began
            tokens += sum(len(entry.emitted) for entry in going)
    return clock() - began, steady, tokens, [run.emitted for run in batch.runs]


def _single(pair: Pair, prompt: tuple[int, ...], config: RunConfig) -> _Single:
    from specviz.engine import speculate

    run = speculate(pair, prompt, config)
    rounds = tuple(run)
    return _Single(token_ids=run.emitted, rounds=rounds)


def _steady_rounds(runs: Sequence[Sequence[Round]]) -> list[Round]:
    """Return the rounds of all runs, up to the last round that every run has in full.

    A round that a limit cut short does not count as full.
    """
    whole = [list(takewhile(lambda each: each.cut is None, rounds)) for rounds in runs]
    count = min(map(len, whole))
    return [entry for rounds in whole for entry in rounds[:count]]


def acceptance_of(runs: Sequence[Sequence[Round]], gamma: int) -> BatchAcceptance:
    """Return the acceptance over all runs.

    ``alpha`` is the share of accepted candidates among the tested candidates of all runs.
    ``reached[i]`` is the share of rounds with more than i accepted candidates. This share is
    computed for each run and then averaged over the runs, so a run with many rounds does not count
    more.
    """
    whole = [[each for each in rounds if each.cut is None] for rounds in runs]
    whole = [rounds for rounds in whole if rounds]
    tested = sum(each.num_tested for rounds in whole for each in rounds)
    accepted = sum(each.num_accepted for rounds in whole for each in rounds)
    return BatchAcceptance(
        alpha=accepted / tested if tested else None,
        reached=tuple(
            fmean(fmean(each.num_accepted > place for each in rounds) for rounds in whole)
            for place in range(gamma)
        ),
        rounds=sum(map(len, whole)),
        other=median(each.times.other for rounds in whole for each in rounds),
    )


def _prompts(pair: Pair, count: int) -> list[tuple[int, ...]]:
    """Return the token ids of ``count`` presets, taken from all kinds in turn."""
    from specviz.engine.model.chat import encode_prompt

    kinds = dict[str, list[str]]()
    for preset in read_presets():
        kinds.setdefault(preset.kind, []).append(preset.text)
    turns = [text for texts in zip(*kinds.values(), strict=False) for text in texts]
    return [tuple(encode_prompt(pair, text, chat=False)) for text in turns[:count]]


def _mean_context(prompts: Texts, config: RunConfig) -> float:
    return fmean(map(len, prompts)) + config.max_new_tokens / 2

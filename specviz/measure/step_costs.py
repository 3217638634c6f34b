"""Measure, store and combine step costs, by pair, simulated sizes, device, threads and sampling.

Step costs are the seconds of a draft step, a target step and a verification. Every timed run adds
the costs of its phases. The costs for another run are fitted to those of earlier runs; a table that
was measured directly supplies the costs that no run has covered. Runs of other processes are
preferred: a disturbance of this process would raise both the times of a run and the step costs with
which the run is compared.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from specviz.figures.run_costs import costs_of_run, fitted_costs
from specviz.figures.smooth_costs import smoothed
from specviz.record.drafters import first_method
from specviz.record.pairs import ProgressCallback
from specviz.record.shapes import shape_text
from specviz.record.step_costs import PassBytes, RunCosts
from specviz.record.trace import Baseline, PairInfo, Round, RunConfig, StepCosts
from specviz.store import change_value, load_value, save_value
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

TABLE_KIND = "step-costs"  # measured tables
RUNS_KIND = "run-costs"  # costs from timed runs
_MOST_RUNS = 40
_MOST_OF_A_PROCESS = 8
_CONTEXTS = (32, 256, 1024)
_TIMING = 5  # version of the measurement; raise it when the times begin to include something else
_MOST_TRIES = 3
_MARGIN = 32  # tokens that the largest verification adds to the context


class TimedRuns(Value):
    """The costs of the latest runs, the oldest first."""

    runs: tuple[RunCosts, ...] = ()


def stored_costs(pair: Pair, config: RunConfig, *, whole: bool = False) -> StepCosts | None:
    """Return the costs from earlier runs, combined with the measured table.

    The result is None if there are neither earlier runs nor a table.

    Args:
        whole: Return None if there is no table; only a table covers every number of tokens.
    """
    table = _smooth_table(pair, config)
    if whole and table is None:
        return None
    stored = load_value(RUNS_KIND, costs_key(pair, config), TimedRuns) or TimedRuns()
    others = [run for run in stored.runs if run.process != _process(os.getpid())]
    return _fitted(pair, config, others or stored.runs, table)


def costs_of_this_run(
    pair: Pair, config: RunConfig, baseline: Baseline | None, rounds: Sequence[Round]
) -> StepCosts | None:
    """Store the costs of a timed run, and return the step costs fitted to them alone."""
    from specviz.engine.loading.hardware import read_bandwidth

    created = datetime.now(UTC).isoformat(timespec="seconds")
    found = costs_of_run(baseline, rounds, created=created, process=_process(os.getpid()))
    if found is None:
        return None
    bandwidth = read_bandwidth(pair.device)
    found = dataclasses.replace(found, bandwidth=bandwidth, pair=pair.info.name)

    def added(kept: TimedRuns | None) -> TimedRuns:
        return TimedRuns(runs=_latest((*(kept.runs if kept else ()), found)))

    change_value(RUNS_KIND, costs_key(pair, config), TimedRuns, added)
    fitted = _fitted(pair, config, [found], None)
    return fitted and dataclasses.replace(fitted, of_this_run=True)


def _fitted(
    pair: Pair, config: RunConfig, runs: Sequence[RunCosts], table: StepCosts | None
) -> StepCosts | None:
    made = fitted_costs(
        runs, table, None if config.is_chain else config, searches=not config.draft_method.has_steps
    )
    if made is None or table is not None:
        return made
    draft, target = _reads(pair, config)
    return dataclasses.replace(made, draft_reads=draft, target_reads=target)


def _latest(runs: Sequence[RunCosts]) -> tuple[RunCosts, ...]:
    """Return the latest runs, a few of each process, so that several processes are included."""
    kept, counts = list[RunCosts](), Counter[str]()
    for run in reversed(runs):
        counts[run.process] += 1
        if counts[run.process] <= _MOST_OF_A_PROCESS:
            kept.append(run)
    return tuple(reversed(kept[:_MOST_RUNS]))


@functools.cache
def _process(pid: int) -> str:
    """Return a unique id of this process; a pid alone may be reused."""
    return f"{pid}-{uuid4().hex[:8]}"


def _stored_table(pair: Pair, config: RunConfig) -> StepCosts | None:
    return load_value(TABLE_KIND, _table_key(pair, config), StepCosts)


def _smooth_table(pair: Pair, config: RunConfig) -> StepCosts | None:
    table = _stored_table(pair, config)
    return None if table is None else smoothed(table)


def step_costs(
    pair: Pair,
    config: RunConfig,
    *,
    fresh: bool = False,
    on_progress: ProgressCallback | None = None,
) -> StepCosts | None:
    """Return the stored costs. If no table is stored, first measure and store a table.

    Measuring takes about ten seconds at most. A noisy or partial table is also stored, and marked
    as noisy or partial. Returns None if there was no time for any measurement, as with models that
    take seconds per step.

    Args:
        fresh: Measure a table even if there is one, and delete the costs from earlier runs.
    """
    kept = None if fresh else stored_costs(pair, config, whole=True)
    if kept is not None:
        return kept
    if fresh:
        save_value(RUNS_KIND, costs_key(pair, config), TimedRuns())
    _measure_table(pair, config, on_progress)
    return stored_costs(pair, config, whole=True)


def _measure_table(
    pair: Pair, config: RunConfig, on_progress: ProgressCallback | None
) -> StepCosts | None:
    from specviz.engine.decoding.costs import measure_step_costs
    from specviz.engine.loading.hardware import read_bandwidth

    settings, contexts = _usual_settings(config), _contexts(pair, config)
    bandwidth = read_bandwidth(pair.device)
    measured = measure_step_costs(
        pair, settings, contexts=contexts, on_progress=on_progress, stepwise=_stepwise(pair, config)
    )
    if measured is not None:
        draft, target = _reads(pair, config)
        measured = dataclasses.replace(
            measured,
            bandwidth=bandwidth,
            draft_reads=draft,
            target_reads=target,
        )
        save_value(TABLE_KIND, _table_key(pair, config), measured)
    return measured


def _reads(pair: Pair, config: RunConfig) -> tuple[PassBytes | None, PassBytes | None]:
    """Return the bytes that a draft step reads, and the bytes that a target step reads."""
    from specviz.engine.model.pass_bytes import draft_bytes, pass_bytes

    return draft_bytes(pair, config), pass_bytes(pair.target)


def mend_step_costs(
    pair: Pair, config: RunConfig, tries: Counter[str], on_progress: ProgressCallback | None = None
) -> None:
    """Measure a table that is missing, noisy or sparse; keep the old table if it is better.

    ``tries`` counts the attempts by key and is updated in place. Attempts are limited, because some
    machines are always busy.
    """
    kept, key = _stored_table(pair, config), _table_key(pair, config)
    if kept is not None and not (kept.noisy or kept.sparse):
        return
    if tries[key] >= _MOST_TRIES:
        return
    made = _measure_table(pair, config, on_progress)
    tries[key] += 1  # an aborted attempt does not count
    if kept is not None and made is not None and _quality(made) < _quality(kept):
        save_value(TABLE_KIND, key, kept)


def _quality(costs: StepCosts) -> tuple[bool, int, float]:
    return not costs.sparse, len(costs.contexts), -costs.drift


def _table_key(pair: Pair, config: RunConfig) -> str:
    """Return the key under which a table is stored.

    All drafters without draft steps share one key.
    """
    drafter = config.drafter if config.draft_method.has_steps else first_method("").name
    return costs_key(pair, config, drafter)


def costs_key(pair: Pair, config: RunConfig, drafter: str = "") -> str:
    """Return the key under which step costs are stored: everything on which they depend.

    Args:
        drafter: The drafter's name in the key; by default, the drafter of the settings.
    """
    environment, models = pair.environment, pair.info
    draft = models.draft.weights_sha256 if models.draft else "none"
    parts = (
        f"target {models.target.weights_sha256} draft {draft} step {models.target.step}",
        f"{environment.device} {environment.device_name} {environment.dtype}",
        f"threads {environment.threads} torch {environment.versions.get('torch', '')} "
        f"numba {environment.versions.get('numba', '')}",
        f"sampling {_sampling(config)} drafter {drafter or config.drafter} timing {_TIMING}",
        *_shape(config),
        *_bodies(models),
        *(["step by step"] if _stepwise(pair, config) else []),
    )
    return "; ".join(parts)


def _stepwise(pair: Pair, config: RunConfig) -> bool:
    """Return whether rounds run step by step because fused rounds do not support the settings."""
    return pair.lanes is not None and bool(pair.lanes.unsupported_reason(config))


def _shape(config: RunConfig) -> Iterator[str]:
    """Yield what a round drafts, as parts of the storage key.

    Yields nothing if a draft model drafts a single sequence of candidates, because keys of older
    versions lack these parts.
    """
    if not config.is_chain:
        yield f"shape {shape_text(config.shape)}" + ("" if config.replacement else " none twice")
    if config.dynamic_tree:
        yield f"dynamic {shape_text(config.dynamic_tree)}"
    if not config.is_chain and config.rule == "match":
        yield "likeliest children"
    if config.draft_method.has_steps and not config.draft_method.needs_draft:
        yield "with its steps"


def _bodies(models: PairInfo) -> Iterator[str]:
    """Yield the simulated sizes of the models, as parts of the storage key.

    Yields nothing for models at their real size, because keys of older versions lack these parts.
    """
    for role, model in (("target", models.target), ("draft", models.draft)):
        if model is not None and model.body is not None:
            shape = model.body.shape
            yield f"{role} {shape.width} wide {shape.feed_forward} {shape.layers} layers"


def _contexts(pair: Pair, config: RunConfig) -> tuple[int, ...]:
    """Return three context lengths; they are shorter for a pair with a short context window."""
    margin = _MARGIN if config.is_chain else max(_MARGIN, config.depth + 1)
    longest = _CONTEXTS[-1] if pair.max_context is None else pair.max_context - margin
    if longest >= _CONTEXTS[-1]:
        return _CONTEXTS
    return tuple(sorted({max(1, longest // 8), max(2, longest // 2), max(3, longest)}))


def _sampling(config: RunConfig) -> str:
    """Return the names of active sampling settings; their values hardly change a step's cost."""
    if config.greedy:
        return "greedy"
    parts = ["temperature"]
    parts += ["top-k"] if config.top_k else []
    parts += ["top-p"] if config.top_p < 1.0 else []
    return "+".join(parts)


def _usual_settings(config: RunConfig) -> RunConfig:
    """Return the settings without forks, and with the rule "lossless".

    Only the rule "match" is kept if a round drafts several sequences or a tree, because it then
    changes the costs.
    """
    rule = "match" if config.rule == "match" and not config.is_chain else "lossless"
    return dataclasses.replace(config, rule=rule, epsilon=0.0, residual="leftover", forks=())

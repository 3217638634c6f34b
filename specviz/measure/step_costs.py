"""Step costs, measured once and stored by pair, bodies, device, threads and kind of sampling."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from specviz.record.pairs import ProgressCallback
from specviz.record.shapes import shape_text
from specviz.record.trace import PairInfo, RunConfig, StepCosts
from specviz.store import load_value, save_value

if TYPE_CHECKING:
    from specviz.engine import Pair

_KIND = "step-costs"
_CONTEXTS = (32, 256, 1024)
_TIMING = 5  # version of the measurement; raise it when the times begin to include something else
_MOST_TRIES = 3
_MARGIN = 32  # tokens that the largest verification adds to the context


def stored_costs(pair: Pair, config: RunConfig) -> StepCosts | None:
    return load_value(_KIND, costs_key(pair, config), StepCosts)


def step_costs(
    pair: Pair,
    config: RunConfig,
    *,
    fresh: bool = False,
    on_progress: ProgressCallback | None = None,
) -> StepCosts | None:
    """Return the stored table, or measure one (in about ten seconds at most) and store it.

    A noisy or partial table is also stored, and marked as such. Returns None if there was no time
    for any measurement, as with models that take seconds per step.
    """
    kept = None if fresh else stored_costs(pair, config)
    if kept is not None:
        return kept
    from specviz.engine.decoding.costs import measure_step_costs
    from specviz.engine.loading.hardware import read_bandwidth
    from specviz.engine.model.pass_bytes import draft_bytes, pass_bytes

    settings, contexts = _lossless_settings(config), _contexts(pair, config)
    bandwidth = read_bandwidth(pair.device)
    measured = measure_step_costs(
        pair, settings, contexts=contexts, on_progress=on_progress, stepwise=_stepwise(pair, config)
    )
    if measured is not None:
        measured = dataclasses.replace(
            measured,
            bandwidth=bandwidth,
            draft_reads=draft_bytes(pair, config),
            target_reads=pass_bytes(pair.target),
        )
        save_value(_KIND, costs_key(pair, config), measured)
    return measured


def mend_step_costs(
    pair: Pair, config: RunConfig, tries: Counter[str], on_progress: ProgressCallback | None = None
) -> None:
    """Measure missing or noisy step costs again and store the better table.

    ``tries`` counts the attempts by key and is updated in place. Attempts are limited, because some
    machines are always busy.
    """
    kept, key = stored_costs(pair, config), costs_key(pair, config)
    if kept is not None and not (kept.noisy or kept.sparse):
        return
    if tries[key] >= _MOST_TRIES:
        return
    step_costs(pair, config, fresh=True, on_progress=on_progress)
    tries[key] += 1  # an aborted attempt does not count
    made = stored_costs(pair, config)
    if kept is not None and made is not None and _quality(made) < _quality(kept):
        save_value(_KIND, key, kept)


def _quality(costs: StepCosts) -> tuple[bool, float]:
    return not costs.sparse, -costs.drift


def costs_key(pair: Pair, config: RunConfig) -> str:
    """Return a key made of everything that the cost of a step depends on."""
    environment, models = pair.environment, pair.info
    draft = models.draft.weights_sha256 if models.draft else "none"
    parts = (
        f"target {models.target.weights_sha256} draft {draft} step {models.target.step}",
        f"{environment.device} {environment.device_name} {environment.dtype}",
        f"threads {environment.threads} torch {environment.versions.get('torch', '')} "
        f"numba {environment.versions.get('numba', '')}",
        f"sampling {_sampling(config)} drafter {config.drafter} timing {_TIMING}",
        *_shape(config),
        *_bodies(models),
        *(["step by step"] if _stepwise(pair, config) else []),
    )
    return "; ".join(parts)


def _stepwise(pair: Pair, config: RunConfig) -> bool:
    """Return whether rounds run step by step, because fused ones do not support the settings."""
    return pair.lanes is not None and bool(pair.lanes.unsupported_reason(config))


def _shape(config: RunConfig) -> Iterator[str]:
    """Yield the key parts for the shape of the draft.

    Yields nothing for one chain from a draft model: keys of older versions have no such part.
    """
    if not config.is_chain:
        yield f"shape {shape_text(config.shape)}" + ("" if config.replacement else " none twice")
    if config.draft_method.has_steps and not config.draft_method.needs_draft:
        yield "with its steps"


def _bodies(models: PairInfo) -> Iterator[str]:
    """Yield the key parts for the models' bodies.

    Yields nothing for models without a body: keys of older versions have no such part.
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
    """Return the names of active sampling settings, whose values hardly change a step's cost."""
    if config.greedy:
        return "greedy"
    parts = ["temperature"]
    parts += ["top-k"] if config.top_k else []
    parts += ["top-p"] if config.top_p < 1.0 else []
    return "+".join(parts)


def _lossless_settings(config: RunConfig) -> RunConfig:
    return dataclasses.replace(config, rule="lossless", epsilon=0.0, residual="leftover", forks=())

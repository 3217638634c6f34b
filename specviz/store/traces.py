"""Traces as versioned JSON.

Saving and loading a trace keeps every float exactly. Unreadable files raise a ``TraceError`` with
the file, the field and a remedy; nothing is guessed or skipped. A file with the field ``server``
holds the answer of another engine.
"""

from __future__ import annotations

from dataclasses import MISSING, replace
from pathlib import Path
from typing import Any, cast

from specviz.errors import SpecvizError, TraceError
from specviz.record.conversations import Message
from specviz.record.server_run import AnyTrace, ServerTrace, dispatch
from specviz.record.step_costs import ShapeCosts
from specviz.record.trace import (
    Candidate,
    Environment,
    Extra,
    Forecast,
    ModelInfo,
    PairInfo,
    Prefill,
    Prompt,
    RunConfig,
    Slice,
    StepCosts,
    Trace,
)
from specviz.store.dataclass_json import MisfitError, fit_to_type
from specviz.store.files import damaged, fields_of, parsed, read_file, refuse, to_json, write_file
from specviz.store.old_blocks import baseline_of_blocks

# Each trace is written with the lowest schema that can hold it. Schema 5 added timing in slices;
# schema 8, answers of other engines; schema 9, more methods; schema 10, graphed steps; schema 11,
# conversations; schema 12, step costs fitted to runs; schema 13, quantised weights; schema 14,
# drafting heads; schema 15, dynamic trees; schema 16, how busy the machine was during the runs that
# step costs are fitted to. The other schemas only added fields.
SCHEMA = 16
_SLICES, _ANSWERS, _METHODS, _GRAPHED, _CONVERSATIONS = 5, 8, 9, 10, 11
_FITS, _QUANTISED, _HEADS, _TREES = 12, 13, 14, 15
KIND = "specviz.trace"
_SERVER = "server"

_OF_FITS = (
    "overhead", "overhead_each", "overhead_error", "runs", "processes", "of_this_run", "table",
)  # fmt: skip
_OF_INTERVALS = ("low", "high", "from_text")
_OF_WEIGHTS = ("weights", "weights_option")

# The schema that added each field. Traces of older schemas lack the field.
_ADDED: dict[type, dict[str, int]] = {
    Trace: {"pieces": 2, "odds": 7, "drafting_costs": _METHODS},
    StepCosts: {
        **dict.fromkeys(("samples", "interpolated"), 3),
        "bandwidth": 4,
        **dict.fromkeys(("draft_errors", "target_errors"), _SLICES),
        "shape": _METHODS,
        **dict.fromkeys(("draft_reads", "target_reads"), _GRAPHED),
        **dict.fromkeys(_OF_FITS, _FITS),
        "others": SCHEMA,
    },
    Slice: {"phases": _FITS},
    Forecast: dict.fromkeys(_OF_INTERVALS, _FITS),
    ModelInfo: {"body": 4, **dict.fromkeys(_OF_WEIGHTS, _QUANTISED), "head": _HEADS},
    PairInfo: dict.fromkeys(("shared_tokens", "texts_sha256"), _METHODS),
    Environment: {"place": 8},
    Prompt: {"before": _CONVERSATIONS},
    Message: {"rounds": _CONVERSATIONS},
    Prefill: {"copied": _CONVERSATIONS},
    RunConfig: {
        "forks": 6,
        **dict.fromkeys(("draft_until", "num_drafts", "replacement", "branching"), _METHODS),
        "dynamic_tree": _TREES,
    },
    ShapeCosts: {"dynamic": _TREES},
    Candidate: {
        "overruled": 6,
        **dict.fromkeys(("parent", "joint", "coin", "noise", "rival"), _METHODS),
    },
    Extra: {"noise": _METHODS, "outside": _HEADS},
}
# Fields that are left out of the JSON if they have their default value.
_OPTIONAL = (
    "pieces", "odds", "place", "shape", "texts_sha256", "before", "rounds", "copied", "phases",
    *_OF_FITS, *_OF_INTERVALS, *_OF_WEIGHTS, "head", "outside", "others",
)  # fmt: skip
_OLDER_RULES = ("lossless", "over-accept")
_OLDER_STEPS = ("library", "lean")
_OLDER_DRAFTERS = ("model", "prompt-lookup")


def trace_to_json(trace: AnyTrace) -> str:
    """Return the trace as JSON, in the oldest schema version that has all fields of the trace."""
    return dispatch(trace, _own_to_json, _answer_to_json)


def _answer_to_json(trace: ServerTrace) -> str:
    return to_json({"schema": _ANSWERS, "kind": KIND, _SERVER: trace})


def _own_to_json(trace: Trace) -> str:
    schema = _lowest_schema(trace)

    def written(value: object) -> dict[str, object]:
        given = fields_of(value)
        for name, added in _ADDED.get(type(value), {}).items():
            if added > schema or (name in _OPTIONAL and _is_default(value, name)):
                del given[name]
        return given

    return to_json({"schema": schema, "kind": KIND, **written(trace)}, written)


def _lowest_schema(trace: Trace) -> int:
    config, pair = trace.config, trace.pair
    models, costs = (pair.target, pair.draft), trace.step_costs
    parts: tuple[object, ...] = (
        trace, config, pair, *models, trace.environment, costs, costs and costs.shape,
        trace.prompt, trace.prefill, trace.forecast,
        *(trace.baseline.slices if trace.baseline else ()),
    )  # fmt: skip
    added = (
        schema
        for part in parts
        for name, schema in _ADDED.get(type(part), {}).items()
        if not _is_default(part, name)
    )
    newer_method = config.rule not in _OLDER_RULES or config.drafter not in _OLDER_DRAFTERS
    return max(
        1,
        *added,
        _SLICES if trace.baseline is not None else 1,
        _METHODS if newer_method else 1,
        _GRAPHED if pair.target.step not in _OLDER_STEPS else 1,
    )


def _is_default(value: Any, name: str) -> bool:
    field = value.__dataclass_fields__[name]
    return getattr(value, name) == ({} if field.default is MISSING else field.default)


def trace_from_json(text: str, source: str = "The trace") -> Trace:
    """Parse a trace from JSON; error messages name ``source`` as the origin of the text."""
    return as_trace(run_from_json(text, source), source)


def run_from_json(text: str, source: str = "The trace") -> AnyTrace:
    return run_from_record(parsed(text, source), source)


def as_trace(
    trace: AnyTrace, source: str = "The run", error: type[SpecvizError] = TraceError
) -> Trace:
    """Return ``trace`` if our own engine made it; raises ``error`` for another engine's answer."""
    if isinstance(trace, ServerTrace):
        raise error(
            f"{source} is an answer of another engine ({trace.info.title}).",
            remedy="Choose a run that specviz decoded itself.",
        )
    return trace


def run_from_record(record: object, source: str = "The trace") -> AnyTrace:
    """Return the run in a parsed JSON ``record``; raises TraceError if the record is not valid."""
    if not isinstance(record, dict) or cast("dict[str, object]", record).get("kind") != KIND:
        refuse(f"{source} is not a specviz trace.")
    fields = cast("dict[str, object]", record)
    _check_schema(fields.get("schema"), source)
    values = {name: fields[name] for name in fields.keys() - {"schema", "kind"}}
    try:
        if fields["schema"] == _ANSWERS and values.keys() == {_SERVER}:
            return fit_to_type(values[_SERVER], ServerTrace)
        return _own_trace(values)
    except MisfitError as misfit:
        raise damaged(source, str(misfit)) from None


def _own_trace(values: dict[str, object]) -> Trace:
    timed = values.get("baseline")
    if not isinstance(timed, dict) or "blocks" not in timed:
        return fit_to_type(values, Trace)
    trace = fit_to_type(values | {"baseline": None}, Trace)
    return replace(trace, baseline=baseline_of_blocks(cast("object", timed), trace))


def save_trace(trace: AnyTrace, path: str | Path) -> None:
    """Write the trace atomically, replacing an existing file; raises TraceError if this fails."""
    text = trace_to_json(trace)
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            refuse(f"{path} is not a file.", "Give the path of a file to write.")
        write_file(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(f"{path} cannot be written: {reason}.", "Choose an existing, writable folder.")


def load_trace(path: str | Path) -> Trace:
    return as_trace(load_run(path), str(path))


def load_run(path: str | Path) -> AnyTrace:
    path = Path(path)
    try:
        text = read_file(path)
    except UnicodeDecodeError:
        refuse(f"{path} is not JSON.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(f"{path} cannot be read: {reason}.", "Check its path and permissions.")
    return run_from_json(text, source=str(path))


def _check_schema(schema: object, source: str) -> None:
    if type(schema) is not int or schema < 1:
        refuse(f"{source} has an unknown schema.")
    if schema > SCHEMA:
        culprit = f"{source} has schema {schema!s:.20}: it was written by a newer specviz."
        raise TraceError(culprit, remedy=f"Update specviz (this version reads up to {SCHEMA}).")

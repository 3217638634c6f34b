"""Traces as versioned JSON.

A trace round-trips exactly, every float included. Unreadable files raise a ``TraceError`` with the
file, the field and a remedy; nothing is guessed or skipped. A file with the field ``server`` holds
the answer of another engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from specviz.errors import TraceError
from specviz.record.server_run import AnyTrace, ServerTrace
from specviz.record.trace import (
    Candidate,
    Environment,
    Extra,
    ModelInfo,
    PairInfo,
    RunConfig,
    StepCosts,
    Trace,
)
from specviz.store.dataclass_json import MisfitError, fit_to_type, short
from specviz.store.files import damaged, fields_of, parsed, read_file, refuse, to_json, write_file
from specviz.store.old_blocks import baseline_of_blocks

# Each trace is written with the lowest schema that can hold it. Schema 2 added pieces; 3, partial
# step costs; 4, bodies; 5, timing in slices and errors of step costs; 6, forks; 7, odds along the
# text; 8, the place of one of several devices and answers of other engines; 9, pairs with two
# vocabularies and more methods; 10, bytes read per pass and graphed steps.
SCHEMA = 10
_PIECES, _PARTIAL, _BODIES, _SLICES, _FORKS, _ODDS, _PLACES, _METHODS = 2, 3, 4, 5, 6, 7, 8, 9
KIND = "specviz.trace"
_SERVER = "server"


def trace_to_json(trace: AnyTrace) -> str:
    """Return the trace as JSON of the lowest schema that holds it, without later fields."""
    if isinstance(trace, ServerTrace):
        return to_json({"schema": _PLACES, "kind": KIND, _SERVER: trace})
    fields, schema, costs = fields_of(trace), _lowest_schema(trace), trace.step_costs
    if not trace.pieces:
        del fields["pieces"]
    if not trace.odds:
        del fields["odds"]
    if not trace.environment.place:
        fields["environment"] = _older(trace.environment, "place")
    fields["pair"] = _pair_in(schema, trace.pair)
    if costs is not None:
        left_out = () if costs.shape else ("shape",)
        fields["step_costs"] = _older(costs, *_costs_after(schema), *left_out)
    if schema < _METHODS:
        del fields["drafting_costs"]
    return to_json({"schema": schema, "kind": KIND, **fields}, _known_in(schema))


def _lowest_schema(trace: Trace) -> int:
    costs, pair = trace.step_costs, trace.pair
    needed = {
        SCHEMA: pair.target.step not in _OLDER_STEPS
        or (costs is not None and (costs.draft_reads, costs.target_reads) != (None, None)),
        _METHODS: pair.shared_tokens is not None
        or pair.texts_sha256 is not None
        or _uses_newer_method(trace)
        or (costs is not None and costs.shape is not None),
        _PLACES: bool(trace.environment.place),
        _ODDS: bool(trace.odds),
        _FORKS: bool(trace.config.forks),
        _SLICES: trace.baseline is not None or (costs is not None and bool(costs.target_errors)),
        _BODIES: pair.has_bodies or (costs is not None and costs.bandwidth is not None),
        _PARTIAL: costs is not None and not costs.whole,
        _PIECES: bool(trace.pieces),
    }
    return next((schema for schema, is_needed in needed.items() if is_needed), 1)


def _costs_after(schema: int) -> Iterator[str]:
    """Yield the fields of step costs that came after the schema."""
    if schema < _PARTIAL:
        yield from ("samples", "interpolated")
    if schema < _BODIES:
        yield "bandwidth"
    if schema < _SLICES:
        yield from ("draft_errors", "target_errors")
    if schema < SCHEMA:
        yield from ("draft_reads", "target_reads")


def _pair_in(schema: int, pair: PairInfo) -> dict[str, object]:
    later = ("shared_tokens", "texts_sha256") if schema < _METHODS else ()
    fields = _older(pair, *later, *(() if pair.texts_sha256 else ("texts_sha256",)))
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if model is not None and schema < _BODIES:
            fields[role] = _older(model, "body")
    return fields


_METHOD_FIELDS: dict[type, tuple[str, ...]] = {
    RunConfig: ("draft_until", "num_drafts", "replacement", "branching"),
    Candidate: ("parent", "joint", "coin", "noise", "rival"),
    Extra: ("noise",),
}
_FORK_FIELDS: dict[type, tuple[str, ...]] = {RunConfig: ("forks",), Candidate: ("overruled",)}
_OLDER_RULES = ("lossless", "over-accept")
_OLDER_STEPS = ("library", "lean")
_OLDER_DRAFTERS = ("model", "prompt-lookup")


def _uses_newer_method(trace: Trace) -> bool:
    """Whether the run uses a speculation method that needs schema ``_METHODS``."""
    config, usual = trace.config, RunConfig()
    return (
        config.rule not in _OLDER_RULES
        or config.drafter not in _OLDER_DRAFTERS
        or any(getattr(config, name) != getattr(usual, name) for name in _METHOD_FIELDS[RunConfig])
    )


def _known_in(schema: int) -> Callable[[object], dict[str, object]]:
    """Return a function that returns the fields of a value which the schema knows."""
    later: list[dict[type, tuple[str, ...]]] = []
    later += [_METHOD_FIELDS] if schema < _METHODS else []
    later += [_FORK_FIELDS] if schema < _FORKS else []

    def written(value: object) -> dict[str, object]:
        fields = fields_of(value)
        for name in (name for each in later for name in each.get(type(value), ())):
            del fields[name]
        return fields

    return written


def _older(value: StepCosts | ModelInfo | PairInfo | Environment, *later: str) -> dict[str, object]:
    """Return the fields of a value without those that came later."""
    return {name: each for name, each in fields_of(value).items() if name not in later}


def trace_from_json(text: str, source: str = "The trace") -> Trace:
    """Return the trace; errors call the text ``source``."""
    return as_trace(run_from_json(text, source), source)


def run_from_json(text: str, source: str = "The trace") -> AnyTrace:
    return run_from_record(parsed(text, source), source)


def as_trace(trace: AnyTrace, source: str = "The run") -> Trace:
    """Return a trace of our own engine; raises TraceError for an answer of another engine."""
    if isinstance(trace, ServerTrace):
        refuse(
            f"{source} is an answer of another engine ({trace.info.title}).",
            "Choose a run that specviz decoded itself.",
        )
    return trace


def run_from_record(record: object, source: str = "The trace") -> AnyTrace:
    """Return the run in parsed JSON; raises TraceError."""
    if not isinstance(record, dict) or cast("dict[str, object]", record).get("kind") != KIND:
        refuse(f"{source} is not a specviz trace.")
    fields = cast("dict[str, object]", record)
    _check_schema(fields.get("schema"), source)
    values = {name: fields[name] for name in fields.keys() - {"schema", "kind"}}
    try:
        if fields["schema"] == _PLACES and values.keys() == {_SERVER}:
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
    """Write the trace atomically; an existing file is replaced. Raises TraceError."""
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
    if type(schema) is int and schema > SCHEMA:
        culprit = f"{source} has schema {short(schema)}: it was written by a newer specviz."
        raise TraceError(culprit, remedy=f"Update specviz (this one reads up to {SCHEMA}).")
    if type(schema) is not int or schema < 1:
        refuse(f"{source} has an unknown schema ({short(schema)}).")

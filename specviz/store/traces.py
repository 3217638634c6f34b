"""Traces as versioned JSON.

A trace comes back equal to the one written, every float exactly. What cannot be read is a
``TraceError`` that names the file, the place in it and the remedy; nothing is guessed and
nothing skipped. A file with the field ``server`` holds the answer of another engine.
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

# 1 had no pieces, 2 no step costs cut short, 3 no bodies, 4 no timing in slices and no errors of
# step costs, 5 no forks, 6 no odds of the text, 7 no place of one of several devices and
# no answers of other engines, 8 no pairs of two vocabularies and
# one way to speculate, 9 no bytes that a pass reads and no
# graphed steps; the lowest that will do is written.
SCHEMA = 10
_PIECES, _CUT_SHORT, _BODIES, _SLICES, _FORKS, _ODDS, _PLACES, _WAYS = 2, 3, 4, 5, 6, 7, 8, 9
KIND = "specviz.trace"
_SERVER = "server"


def trace_to_json(trace: AnyTrace) -> str:
    """What a schema had no place for is left out, which a trace of that schema does without."""
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
    if schema < _WAYS:
        del fields["drafting_costs"]
    return to_json({"schema": schema, "kind": KIND, **fields}, _known_in(schema))


def _lowest_schema(trace: Trace) -> int:
    costs, pair = trace.step_costs, trace.pair
    needed = {
        SCHEMA: pair.target.step not in _OLDER_STEPS
        or (costs is not None and (costs.draft_reads, costs.target_reads) != (None, None)),
        _WAYS: pair.shared_tokens is not None
        or pair.texts_sha256 is not None
        or _has_a_way(trace)
        or (costs is not None and costs.shape is not None),
        _PLACES: bool(trace.environment.place),
        _ODDS: bool(trace.odds),
        _FORKS: bool(trace.config.forks),
        _SLICES: trace.baseline is not None or (costs is not None and bool(costs.target_errors)),
        _BODIES: pair.has_bodies or (costs is not None and costs.bandwidth is not None),
        _CUT_SHORT: costs is not None and not costs.whole,
        _PIECES: bool(trace.pieces),
    }
    return next((schema for schema, is_needed in needed.items() if is_needed), 1)


def _costs_after(schema: int) -> Iterator[str]:
    """Fields of step costs that the schema did not know."""
    if schema < _CUT_SHORT:
        yield from ("samples", "interpolated")
    if schema < _BODIES:
        yield "bandwidth"
    if schema < _SLICES:
        yield from ("draft_errors", "target_errors")
    if schema < SCHEMA:
        yield from ("draft_reads", "target_reads")


def _pair_in(schema: int, pair: PairInfo) -> dict[str, object]:
    later = ("shared_tokens", "texts_sha256") if schema < _WAYS else ()
    fields = _older(pair, *later, *(() if pair.texts_sha256 else ("texts_sha256",)))
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if model is not None and schema < _BODIES:
            fields[role] = _older(model, "body")
    return fields


_OF_WAYS: dict[type, tuple[str, ...]] = {
    RunConfig: ("draft_until", "num_drafts", "replacement", "branching"),
    Candidate: ("parent", "joint", "coin", "noise", "rival"),
    Extra: ("noise",),
}
_OF_FORKS: dict[type, tuple[str, ...]] = {RunConfig: ("forks",), Candidate: ("overruled",)}
_OLDER_RULES = ("lossless", "over-accept")
_OLDER_STEPS = ("library", "lean")
_OLDER_DRAFTERS = ("model", "prompt-lookup")


def _has_a_way(trace: Trace) -> bool:
    """Whether it speculates in a way that no schema before had a place for."""
    config, usual = trace.config, RunConfig()
    return (
        config.rule not in _OLDER_RULES
        or config.drafter not in _OLDER_DRAFTERS
        or any(getattr(config, name) != getattr(usual, name) for name in _OF_WAYS[RunConfig])
    )


def _known_in(schema: int) -> Callable[[object], dict[str, object]]:
    """What is written of a value, by what the schema had a place for."""
    later: list[dict[type, tuple[str, ...]]] = []
    later += [_OF_WAYS] if schema < _WAYS else []
    later += [_OF_FORKS] if schema < _FORKS else []

    def written(value: object) -> dict[str, object]:
        fields = fields_of(value)
        for name in (name for each in later for name in each.get(type(value), ())):
            del fields[name]
        return fields

    return written


def _older(value: StepCosts | ModelInfo | PairInfo | Environment, *later: str) -> dict[str, object]:
    """Without the fields that came later."""
    return {name: each for name, each in fields_of(value).items() if name not in later}


def trace_from_json(text: str, source: str = "The trace") -> Trace:
    """``source`` is what the errors call the text."""
    return as_trace(run_from_json(text, source), source)


def run_from_json(text: str, source: str = "The trace") -> AnyTrace:
    return run_from_record(parsed(text, source), source)


def as_trace(trace: AnyTrace, source: str = "The run") -> Trace:
    """For what needs the rounds as our own engine records them; raises TraceError."""
    if isinstance(trace, ServerTrace):
        refuse(
            f"{source} is an answer of another engine ({trace.info.title}).",
            "Choose a run that specviz decoded itself.",
        )
    return trace


def run_from_record(record: object, source: str = "The trace") -> AnyTrace:
    """From JSON that is parsed already."""
    if not isinstance(record, dict) or cast("dict[str, object]", record).get("kind") != KIND:
        refuse(f"{source} is not a specviz trace.")
    fields = cast("dict[str, object]", record)
    _check_schema(fields.get("schema"), source)
    values = {name: fields[name] for name in fields.keys() - {"schema", "kind"}}
    try:
        if fields["schema"] == _PLACES and values.keys() == {_SERVER}:
            return fit_to_type(values[_SERVER], ServerTrace)
        return _fitted(values)
    except MisfitError as misfit:
        raise damaged(source, str(misfit)) from None


def _fitted(values: dict[str, object]) -> Trace:
    timed = values.get("baseline")
    if not isinstance(timed, dict) or "blocks" not in timed:
        return fit_to_type(values, Trace)
    trace = fit_to_type(values | {"baseline": None}, Trace)
    return replace(trace, baseline=baseline_of_blocks(cast("object", timed), trace))


def save_trace(trace: AnyTrace, path: str | Path) -> None:
    """Whole or not at all. An older file of that name is replaced."""
    text = trace_to_json(trace)
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            refuse(f"{path} is not a file.", "Name a file to write the trace to.")
        write_file(path, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(f"{path} cannot be written: {reason}.", "Choose a folder that exists and is yours.")


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
        refuse(f"{path} cannot be read: {reason}.", "Check its name and its permissions.")
    return run_from_json(text, source=str(path))


def _check_schema(schema: object, source: str) -> None:
    if type(schema) is int and schema > SCHEMA:
        culprit = f"{source} has schema {short(schema)}: it was written by a newer specviz."
        raise TraceError(culprit, remedy=f"Update specviz (this one reads up to {SCHEMA}).")
    if type(schema) is not int or schema < 1:
        refuse(f"{source} has no schema that specviz ever wrote ({short(schema)}).")

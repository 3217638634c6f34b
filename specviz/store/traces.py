"""Traces as versioned JSON.

A trace comes back equal to the one written, every float exactly. What cannot be read is a
``TraceError`` that names the file, the place in it and the remedy; nothing is guessed and
nothing skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from specviz.errors import TraceError
from specviz.record.trace import PairInfo, StepCosts, Trace
from specviz.store.dataclass_json import MisfitError, fit_to_type, short
from specviz.store.files import damaged, fields_of, parsed, read_file, refuse, to_json, write_file

SCHEMA = 4  # 1 had no pieces, 2 no step costs cut short, 3 no bodies; the lowest that will do is
# written
KIND = "specviz.trace"


def trace_to_json(trace: Trace) -> str:
    """A part that a trace does without is left out, as before there was such a part."""
    fields, schema = fields_of(trace), 1
    if trace.pieces:
        schema = 2
    else:
        del fields["pieces"]
    costs, pair = trace.step_costs, trace.pair
    if costs is None or costs.whole:
        fields["step_costs"] = costs and _older_costs(costs)
    else:
        schema = 3
    if any(model is not None and model.body is not None for model in (pair.target, pair.draft)):
        schema = SCHEMA
    else:
        fields["pair"] = _without_bodies(pair)
    return to_json({"schema": schema, "kind": KIND, **fields})


def _without_bodies(pair: PairInfo) -> dict[str, object]:
    fields = fields_of(pair)
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if model is not None:
            fields[role] = {k: each for k, each in fields_of(model).items() if k != "body"}
    return fields


def _older_costs(costs: StepCosts) -> dict[str, object]:
    later = ("samples", "interpolated")
    return {name: each for name, each in fields_of(costs).items() if name not in later}


def trace_from_json(text: str, source: str = "The trace") -> Trace:
    """``source`` is what the errors call the text."""
    return trace_from_record(parsed(text, source), source)


def trace_from_record(record: object, source: str = "The trace") -> Trace:
    """From JSON that is parsed already."""
    if not isinstance(record, dict) or cast("dict[str, object]", record).get("kind") != KIND:
        refuse(f"{source} is not a specviz trace.")
    fields = cast("dict[str, object]", record)
    _check_schema(fields.get("schema"), source)
    try:
        return fit_to_type(
            {name: fields[name] for name in fields.keys() - {"schema", "kind"}}, Trace
        )
    except MisfitError as misfit:
        raise damaged(source, str(misfit)) from None


def save_trace(trace: Trace, path: str | Path) -> None:
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
    path = Path(path)
    try:
        text = read_file(path)
    except UnicodeDecodeError:
        refuse(f"{path} is not JSON.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(f"{path} cannot be read: {reason}.", "Check its name and its permissions.")
    return trace_from_json(text, source=str(path))


def _check_schema(schema: object, source: str) -> None:
    if type(schema) is int and schema > SCHEMA:
        culprit = f"{source} has schema {short(schema)}: it was written by a newer specviz."
        raise TraceError(culprit, remedy=f"Update specviz (this one reads up to {SCHEMA}).")
    if type(schema) is not int or schema < 1:
        refuse(f"{source} has no schema that specviz ever wrote ({short(schema)}).")

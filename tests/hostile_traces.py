"""Hostile trace files: malformed, huge, nested, absurd, with scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specviz.record.trace import Trace
from specviz.store import trace_to_json
from tests.traces import Passes, full_trace, make_trace, timed

SCRIPT = "<script>window.hurt = 1</script><img src=x onerror='window.hurt=1'>"
MARKUP = "![x](http://example.invalid/x.png) [y](javascript:alert(1)) $\\href{x}{y}$ :red[z] `q`"
SCHEMA = b'"schema":5'
_HEAD = b'{"kind":"specviz.trace","schema":1,"x":'
_TINIEST = 5e-324  # seconds: dividing by it gives infinity
Edit = Callable[[dict[str, Any]], None]


def _record() -> dict[str, Any]:
    return json.loads(trace_to_json(full_trace()))


def _edited(edit: Edit) -> bytes:
    record = _record()
    edit(record)
    return json.dumps(record).encode()


def _put(value: object, *places: str | int) -> bytes:
    def edit(record: dict[str, Any]) -> None:
        spot: Any = record
        for place in places[:-1]:
            spot = spot[place]
        spot[places[-1]] = value

    return _edited(edit)


def refused_files() -> dict[str, bytes]:
    """Return files that must be refused, by name."""
    whole = trace_to_json(full_trace()).encode()
    candidate = ("rounds", 0, "candidates", 0)
    return {
        "empty": b"",
        "blank": b" \n\t ",
        "null": b"null",
        "list": b"[]",
        "number": b"1e309",
        "NaN": b"NaN",
        "text": b'"specviz.trace"',
        "html": f"<html>{SCRIPT}</html>".encode(),
        "zip": b"PK\x03\x04" + bytes(200),
        "database": b"SQLite format 3\0" + bytes(4096),
        "utf-16": whole.decode().encode("utf-16"),
        "not utf-8": b'{"kind": "\xff\xfe"}',
        "half": whole[: len(whole) // 2],
        "all but the end": whole.strip()[:-1],
        "twice": whole + whole,
        "rubbish after": whole.strip() + b"]",
        "other kind": b'{"schema": 1, "kind": "specviz.suite"}',
        "kind alone": b'{"kind": "specviz.trace"}',
        "newer": whole.replace(SCHEMA, b'"schema":99'),
        "schema as text": whole.replace(SCHEMA, b'"schema":"1"'),
        "schema huge": whole.replace(SCHEMA, b'"schema":' + b"9" * 4000),
        "schema nested": whole.replace(SCHEMA, b'"schema":' + b"[" * 900 + b"]" * 900),
        "deep lists": b"[" * 500_000,
        "deep objects": b'{"a":' * 200_000,
        "deep inside": whole.replace(b'"notices":', b'"notices":' + b"[" * 50_000),
        "deep and closed": _HEAD + b"[" * 900 + b"]" * 900 + b"}",
        "a number of a million digits": _HEAD + b"7" * 10**6,
        "too large": b" " * (70 * 10**6 + 1),
        "many small things": _HEAD + b"[" + b"1," * 300_000 + b"1]}",
        "same key twice": b'{"kind":"specviz.trace","kind":"other","schema":1}',
        "script as a field": _put(1, SCRIPT),
        "prototype": _put({"polluted": True}, "__proto__"),
        "script for a number": _put(SCRIPT, "prefill", "target"),
        "script for a verdict": _put(SCRIPT, *candidate, "verdict"),
        "script for a finish": _put(SCRIPT, "finish"),
        "infinite time": _put(1e308, "rounds", 0, "times", "draft"),
        "time below nothing": _put(-5.0, "rounds", 0, "times", "draft"),
        "chance above one": _put(7.0, *candidate, "target_prob"),
        "chance of nothing": _put(0.0, *candidate, "draft_prob"),
        "endless token": _put(2**200, *candidate, "token_id"),
        "token as a real": _put(1.5, *candidate, "token_id"),
        "gamma of a million": _put(10**6, "config", "gamma"),
        "gamma below": _put(-1, "config", "gamma"),
        "temperature of none": _put(None, "config", "temperature"),
        "rounds as an object": _put({"0": {}}, "rounds"),
        "rounds of nothing": _put([], "rounds"),
        "round of nulls": _put([None] * 1000, "rounds"),
        "candidates nested": _put([[[[]]]], "rounds", 0, "candidates"),
        "insight of nothing": _put({"draft_prob": 1}, *candidate, "insight"),
        "costs that do not fit": _put([[1.0]], "step_costs", "target"),
        "baseline that does not fit": _put(9, "baseline", "slices", 0, "last"),
        "a field missing": _edited(lambda record: record.pop("pair")),
        "config of another": _put({}, "config", "drafter"),
        "bool for a seed": _put(True, "config", "seed"),
    }  # fmt: skip


def _paced(trace: Trace, *, rounds: float = 0.01, steps: float = 0.01) -> Trace:
    """Return the trace with a baseline of constant times."""
    count, tokens = len(trace.rounds), len(trace.token_ids)
    held = Passes(target=([steps] * tokens,) * 2, speculative=([rounds] * count,) * 2)
    return timed(trace, held)


def strange_traces() -> dict[str, Trace]:
    """Return valid traces with mark-up as text or with absurd figures, by name."""
    trace = make_trace(["aar", "aaa"])
    first = trace.rounds[0]
    words = SCRIPT + MARKUP + "</script>\u202e\u2028\0"
    spoken = replace(
        trace,
        text=words,
        finish="stopped",
        created=words,
        prompt=replace(trace.prompt, text=words, kind=words, token_texts=(words,) * 4),
        pair=replace(trace.pair, name=words),
        notices=(words,),
        rounds=(replace(first, candidates=tuple(
            replace(each, text=words) for each in first.candidates
        )),),
    )  # fmt: skip
    still = replace(first.times, draft=0.0, verify=0.0, other=0.0)
    tiny = replace(still, draft=_TINIEST)
    return {
        "scripts": spoken,
        "no time": replace(trace, rounds=tuple(replace(r, times=still) for r in trace.rounds)),
        "hardly any time": replace(
            trace, rounds=tuple(replace(r, times=tiny) for r in trace.rounds)
        ),
        "rounds in no time": _paced(trace, rounds=_TINIEST),
        "steps in no time": _paced(trace, steps=_TINIEST),
        "no candidates": replace(trace, rounds=(replace(first, candidates=()),)),
        "no tokens": replace(trace, rounds=(replace(first, emitted=()),)),
        "the same round again": replace(trace, rounds=(first,) * 5),
        "a long name": replace(trace, pair=replace(trace.pair, name="n" * 100_000)),
        "a date that is none": replace(trace, created="yesterday, or so"),
        "far away": replace(trace, rounds=(replace(first, context_length=2**62),)),
    }

"""Results of other load generators: AIPerf's profile_export_aiperf.json, and GuideLLM's JSON.

Both formats contain only aggregates. So single requests are not known, and intervals cannot be
computed. Neither format contains acceptance rates. Numbers that are missing or impossible are None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from specviz.errors import TraceError
from specviz.figures.load_blocks import Percentiles
from specviz.figures.load_rows import percentile_words
from specviz.figures.load_words import level_words
from specviz.load.stored import is_sweep, sweep_from_json
from specviz.record.load_run import LoadMode, LoadSweep
from specviz.record.numbers import RATE, UNKNOWN
from specviz.servers.foreign_json import one_line_name
from specviz.store.files import damaged, parsed, read_file
from specviz.values import Value

Tool = Literal["AIPerf", "GuideLLM"]
_MOST_POINTS = 200
_LARGEST = 1e12


class ForeignPoint(Value):
    """The results of another tool at one level of load; times are in seconds."""

    mode: LoadMode
    level: float | None
    tokens_per_second: float | None
    requests_per_second: float | None = None
    ttft: Percentiles | None = None
    chunk_latency: Percentiles | None = None  # called inter-token latency by both tools
    request_latency: Percentiles | None = None
    requests: int | None = None
    failures: int | None = None


class ForeignLoad(Value):
    """The results of another load generator. ``source`` is the name of the file."""

    tool: Tool
    source: str
    model: str | None
    points: tuple[ForeignPoint, ...]


def foreign_rows(found: ForeignLoad) -> list[dict[str, str]]:
    """Return a table row for each level of load in another tool's results."""
    return [
        {
            "Load": UNKNOWN if each.level is None else level_words(each.level, each.mode),
            "Tokens/s": RATE.shown(each.tokens_per_second),
            "First token, ms": percentile_words(each.ttft),
            "Between tokens, ms": percentile_words(each.chunk_latency),
            "Requests": UNKNOWN if each.requests is None else f"{each.requests:,}",
            "Failures": UNKNOWN if each.failures is None else f"{each.failures:,}",
        }
        for each in found.points
    ]


def open_load(path: Path) -> LoadSweep | ForeignLoad:
    """Open a sweep's file, or a file of AIPerf or GuideLLM; raises TraceError for other files."""
    return load_from_json(read_file(path), path.name)


def load_from_json(text: str, source: str) -> LoadSweep | ForeignLoad:
    record = parsed(text, source)
    if is_sweep(record):
        return sweep_from_json(text, source)
    if isinstance(record, Mapping):
        if isinstance(record.get("benchmarks"), list):
            return _guidellm(record, source)
        metrics = record.get("records") if _has_metrics(record.get("records")) else record
        if _has_metrics(metrics):
            return _aiperf(record, metrics, source)
    raise TraceError(
        f"{source} is neither a load sweep nor a result of AIPerf or GuideLLM.",
        remedy="Choose the JSON file of a sweep, or the JSON results of AIPerf or GuideLLM.",
    )


def _has_metrics(record: Any) -> bool:
    names = ("output_token_throughput", "request_throughput", "request_latency")
    return isinstance(record, Mapping) and any(
        isinstance(record.get(each), Mapping) for each in names
    )


# AIPerf: {"time_to_first_token": {"unit": "ms", "avg": …, "p50": …, "p90": …, "p99": …}, …}


def _aiperf(record: Mapping[str, Any], metrics: Any, source: str) -> ForeignLoad:
    settings = _inside(record, "input_config", "loadgen")
    concurrency = _number(_inside(settings, "concurrency"))
    rate = _number(_inside(settings, "request_rate"))
    count = _number(_inside(metrics, "request_count", "avg"))
    failed = _number(_inside(metrics, "error_request_count", "avg"))
    point = ForeignPoint(
        mode="open" if concurrency is None and rate is not None else "closed",
        level=concurrency if concurrency is not None else rate,
        tokens_per_second=_number(_inside(metrics, "output_token_throughput", "avg")),
        requests_per_second=_number(_inside(metrics, "request_throughput", "avg")),
        ttft=_aiperf_times(_inside(metrics, "time_to_first_token"), count),
        chunk_latency=_aiperf_times(_inside(metrics, "inter_token_latency"), count),
        request_latency=_aiperf_times(_inside(metrics, "request_latency"), count),
        requests=None if count is None else round(count),
        failures=None if failed is None else round(failed),
    )
    models = _inside(record, "input_config", "endpoint", "model_names")
    name = models[0] if isinstance(models, list) and models else None
    return ForeignLoad(tool="AIPerf", source=source, model=_name(name), points=(point,))


def _aiperf_times(metric: Any, count: float | None) -> Percentiles | None:
    scale = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "sec": 1.0, "s": 1.0}.get(
        str(_inside(metric, "unit"))
    )
    return None if scale is None else _percentiles(metric, scale, count)


# GuideLLM: {"benchmarks": [{"config": {"strategy": …}, "metrics": {"…": {"successful": …}}}]}


def _guidellm(record: Mapping[str, Any], source: str) -> ForeignLoad:
    rows = record["benchmarks"][:_MOST_POINTS]
    points = tuple(_guidellm_point(each) for each in rows if _inside(each, "metrics"))
    if not points:
        raise damaged(source, "it has no benchmark with metrics")
    backend = _inside(rows[0], "config", "backend")
    model = next(
        (
            each
            for name in ("model", "model_name")
            if isinstance(each := _inside(backend, name), str)
        ),
        _inside(record, "args", "model"),
    )
    return ForeignLoad(tool="GuideLLM", source=source, model=_name(model), points=points)


def _guidellm_point(row: Any) -> ForeignPoint:
    metrics = row["metrics"]
    # Older versions have the strategy in "args", newer ones in "config".
    strategy = _inside(row, "config", "strategy") or _inside(row, "args", "strategy")
    streams = _first(strategy, "streams", "max_concurrency", "concurrency")
    rate = _first(strategy, "rate")
    kind = _inside(strategy, "type_")
    if kind == "synchronous":
        streams = 1.0
    closed = kind in ("synchronous", "concurrent", "throughput") or rate is None
    achieved = _number(_inside(metrics, "request_concurrency", "successful", "mean"))
    count = _number(_inside(metrics, "request_totals", "successful"))
    failed = _number(_inside(metrics, "request_totals", "errored"))
    level = (streams if streams is not None else achieved) if closed else rate
    return ForeignPoint(
        mode="closed" if closed else "open",
        level=level,
        tokens_per_second=_mean_of(metrics, "output_tokens_per_second"),
        requests_per_second=_mean_of(metrics, "requests_per_second"),
        ttft=_guidellm_times(metrics, "time_to_first_token_ms", 1e-3, count),
        chunk_latency=_guidellm_times(metrics, "inter_token_latency_ms", 1e-3, count),
        request_latency=_guidellm_times(metrics, "request_latency", 1.0, count),
        requests=None if count is None else round(count),
        failures=None if failed is None else round(failed),
    )


def _mean_of(metrics: Any, name: str) -> float | None:
    return _number(_inside(metrics, name, "successful", "mean"))


def _guidellm_times(
    metrics: Any, name: str, scale: float, count: float | None
) -> Percentiles | None:
    own = _inside(metrics, name, "successful")
    return _percentiles(_inside(own, "percentiles") or own, scale, count)


# Untrusted values


def _percentiles(found: Any, scale: float, count: float | None) -> Percentiles | None:
    p50, p90, p99 = (_number(_inside(found, each)) for each in ("p50", "p90", "p99"))
    if p50 is None or p90 is None or p99 is None or not p50 <= p90 <= p99:
        return None
    return Percentiles(p50=scale * p50, p90=scale * p90, p99=scale * p99, count=round(count or 0))


def _first(record: Any, *names: str) -> float | None:
    numbers = (_number(_inside(record, each)) for each in names)
    return next((each for each in numbers if each is not None), None)


def _inside(record: Any, *names: str) -> Any:
    for each in names:
        record = record.get(each) if isinstance(record, Mapping) else None
    return record


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= _LARGEST else None


def _name(value: Any) -> str | None:
    return one_line_name(value) if isinstance(value, str) else None

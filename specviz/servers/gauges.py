"""The state that an engine reports at /metrics: KV cache, queue, preemptions, prefix cache.

The samples of several replicas are summed, except the use of the KV cache: there, the largest value
counts. Unreported values are None. llama.cpp counts cached prompt tokens separately from the prompt
tokens that it processes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from specviz.figures.arithmetic import known_sum
from specviz.record.load_run import EngineGauges
from specviz.record.server_run import EngineName
from specviz.servers.address import KeyName
from specviz.servers.connection import Connection, Limits
from specviz.servers.prometheus import Sample, samples_of

_LARGEST = 2.0**53
_LIMITS = Limits(between=5.0, total=5.0)
_TOTAL = "_total"
# Names by engine and field, newer names first; the ending ``_total`` may be missing.
_NAMES: Mapping[EngineName, Mapping[str, Sequence[str]]] = {
    "vllm": {
        "kv_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "running": ("vllm:num_requests_running",),
        "waiting": ("vllm:num_requests_waiting",),
        "preemptions": ("vllm:num_preemptions",),
        "prefix_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        "prefix_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        "prompt_tokens": ("vllm:prompt_tokens",),
    },
    "llama.cpp": {
        "kv_use": ("llamacpp:kv_cache_usage_ratio",),
        "running": ("llamacpp:requests_processing",),
        "waiting": ("llamacpp:requests_deferred",),
        "prefix_hits": ("llamacpp:prompt_tokens_cached",),
        "prompt_tokens": ("llamacpp:prompt_tokens",),
    },
    "sglang": {
        "kv_use": ("sglang:token_usage",),
        "running": ("sglang:num_running_reqs",),
        "waiting": ("sglang:num_queue_reqs",),
        "preemptions": ("sglang:num_retracted_reqs",),
        "prompt_tokens": ("sglang:prompt_tokens",),
    },
}


class GaugeReader:
    """Reads the state of one engine from /metrics; ``stop`` may be called from any thread."""

    def __init__(
        self, address: str, engine: EngineName, *, key: KeyName, allow_remote: bool
    ) -> None:
        self._engine: EngineName = engine
        self._connection = Connection(address, key=key, allow_remote=allow_remote, limits=_LIMITS)

    @property
    def can_read(self) -> bool:
        return self._engine in _NAMES

    def stop(self) -> None:
        self._connection.stop()

    def read(self, at: float) -> EngineGauges:
        """Return the engine's state at time ``at``; raise ServerError if it cannot be read."""
        page = self._connection.get_text("/metrics")
        return gauges_of(samples_of(page or ""), self._engine, at=at)


def gauges_of(samples: Sequence[Sample], engine: EngineName, *, at: float) -> EngineGauges:
    found = {
        field: _value(samples, names, largest=field == "kv_use")
        for field, names in _NAMES.get(engine, {}).items()
    }
    if engine == "llama.cpp":
        found["prefix_queries"] = known_sum(found["prefix_hits"], found["prompt_tokens"])
    return EngineGauges(at=at, **found)


def _value(samples: Sequence[Sample], names: Sequence[str], *, largest: bool) -> float | None:
    for name in names:
        values = [each.value for each in samples if each.name.removesuffix(_TOTAL) == name]
        if values:
            total = max(values) if largest else math.fsum(values)
            usable = all(0 <= each <= _LARGEST for each in values) and total <= _LARGEST
            return total if usable else None
    return None

"""What engines count of everything that they serve, and the rates between two moments.

Samples of several replicas are summed. SGLang counts verifications and tokens; of drafts it gives
averages only, which are no counters and are left out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields

from specviz.errors import ServerError
from specviz.record.server_run import Counters, ServerInfo, alpha_by_position
from specviz.servers.address import SERVER_KEY, KeyName
from specviz.servers.connection import Connection
from specviz.servers.failures import broken
from specviz.servers.prometheus import Sample, samples_of

# By engine, what its counters are called; the end ``_total`` may be missing.
_NAMES = {
    "vllm:spec_decode_num_drafts": "drafts",
    "vllm:spec_decode_num_draft_tokens": "drafted",
    "vllm:spec_decode_num_accepted_tokens": "accepted",
    "vllm:generation_tokens": "generated",
    "llamacpp:spec_decode_num_drafts": "drafts",
    "llamacpp:spec_decode_num_draft_tokens": "drafted",
    "llamacpp:spec_decode_num_accepted_tokens": "accepted",
    "llamacpp:tokens_predicted": "generated",
    "sglang:spec_verify_calls": "drafts",
    "sglang:generation_tokens": "generated",
}
_BY_POSITION = (
    "vllm:spec_decode_num_accepted_tokens_per_pos",
    "llamacpp:spec_decode_num_accepted_tokens_per_pos",
)
_MOST_POSITIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Between two moments. None where the engine does not count it, or counted nothing."""

    seconds: float
    alpha_by_position: tuple[float | None, ...] = ()
    accepted_length: float | None = None  # tokens a round, the bonus or recovered one included
    draft_acceptance_rate: float | None = None  # accepted / drafted
    drafted_per_second: float | None = None
    accepted_per_second: float | None = None
    generated_per_second: float | None = None


def read_counters(
    info: ServerInfo, *, allow_remote: bool = False, key: KeyName = SERVER_KEY
) -> Counters:
    """From the engine's /metrics."""
    connection = Connection(info.address, key=key, allow_remote=allow_remote)
    page = connection.get_text("/metrics")
    if page is None:
        raise broken(connection.address, "has no page /metrics")
    return _counters(samples_of(page), at=time.monotonic(), source=connection.address)


def counters_of_dump(text: str) -> Counters:
    """Of a saved /metrics, whose time is not known: 0."""
    return _counters(samples_of(text), at=0.0, source="The page of metrics")


def rates(before: Counters, after: Counters) -> Rates | None:
    """None if a counter went back: the engine was started anew in between."""
    if went_back(before, after):
        return None
    seconds = after.at - before.at
    drafts = _grown(before.drafts, after.drafts)
    drafted = _grown(before.drafted, after.drafted)
    accepted = _grown(before.accepted, after.accepted)
    at_positions = _grown_at(before.accepted_at, after.accepted_at)
    share = _ratio(accepted, drafts)
    return Rates(
        seconds=seconds,
        alpha_by_position=alpha_by_position(at_positions, drafts) if drafts else (),
        accepted_length=None if share is None else 1 + share,
        draft_acceptance_rate=_ratio(accepted, drafted),
        drafted_per_second=_ratio(drafted, seconds),
        accepted_per_second=_ratio(accepted, seconds),
        generated_per_second=_ratio(_grown(before.generated, after.generated), seconds),
    )


def went_back(before: Counters, after: Counters) -> bool:
    """Whether a counter is less than it was, or gone: the engine was started anew."""
    for each in fields(Counters):
        if each.name in ("at", "accepted_at"):
            continue
        old, new = getattr(before, each.name), getattr(after, each.name)
        if old is not None and (new is None or new < old):
            return True
    held = (*after.accepted_at, *(0.0 for _ in before.accepted_at[len(after.accepted_at) :]))
    return any(new < old for new, old in zip(held, before.accepted_at, strict=False))


def _counters(samples: Sequence[Sample], *, at: float, source: str) -> Counters:
    sums = dict[str, float]()
    positions: defaultdict[int, float] = defaultdict(float)
    for sample in samples:
        name = sample.name.removesuffix("_total")
        if (kind := _NAMES.get(name)) is not None:
            sums[kind] = sums.get(kind, 0.0) + sample.value
        elif name in _BY_POSITION and sample.labels.get("position", "").isdecimal():
            positions[int(sample.labels["position"])] += sample.value
    if not sums:
        raise ServerError(
            f"{source} holds none of the counters of vLLM, llama.cpp or SGLang.",
            remedy="Start the engine with its metrics on.",
        )
    last = min(max(positions, default=-1), _MOST_POSITIONS)
    return Counters(at=at, **sums, accepted_at=tuple(positions[place] for place in range(last + 1)))


def _grown(before: float | None, after: float | None) -> float | None:
    """A counter that appeared in between began at 0."""
    return None if after is None else after - (before or 0.0)


def _grown_at(before: Sequence[float], after: Sequence[float]) -> list[float]:
    old = (*before, *(0.0 for _ in after[len(before) :]))
    return [new - each for new, each in zip(after, old, strict=True)]


def _ratio(first: float | None, second: float | None) -> float | None:
    return first / second if first is not None and second else None

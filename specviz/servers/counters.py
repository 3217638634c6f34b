"""Read engines' counters over all requests, and compute rates from two states of the counters.

Samples of several replicas are summed. Impossible values are left out, with a notice. For SGLang,
only the numbers of verifications and of generated tokens are read, because SGLang reports
candidates only as averages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from specviz.errors import ServerError
from specviz.figures.arithmetic import known_ratio
from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import (
    ENGINES,
    Counters,
    EngineName,
    ServerInfo,
    alpha_by_position,
)
from specviz.servers.address import SERVER_KEY, KeyName
from specviz.servers.connection import Connection
from specviz.servers.failures import broken
from specviz.servers.prometheus import Sample, position_of, samples_of
from specviz.values import Value

# The names of the counters by engine; the ending ``_total`` may be missing.
_NAMES: dict[EngineName, dict[str, str]] = {
    "vllm": {
        "drafts": "vllm:spec_decode_num_drafts",
        "drafted": "vllm:spec_decode_num_draft_tokens",
        "accepted": "vllm:spec_decode_num_accepted_tokens",
        "accepted_at": "vllm:spec_decode_num_accepted_tokens_per_pos",
        "generated": "vllm:generation_tokens",
    },
    "llama.cpp": {
        "drafts": "llamacpp:spec_decode_num_drafts",
        "drafted": "llamacpp:spec_decode_num_draft_tokens",
        "accepted": "llamacpp:spec_decode_num_accepted_tokens",
        "accepted_at": "llamacpp:spec_decode_num_accepted_tokens_per_pos",
        "generated": "llamacpp:tokens_predicted",
    },
    "sglang": {
        "drafts": "sglang:spec_verify_calls",
        "generated": "sglang:generation_tokens",
    },
}
_AT = "accepted_at"
_TOTAL = "_total"
_LARGEST = 2.0**53  # above this, a float64 cannot represent every integer


class Rates(Value):
    """Rates of an engine over ``seconds``, computed from the increase of its counters.

    A rate is None if a counter is missing or the divisor is 0.
    """

    seconds: float
    alpha_by_position: tuple[float | None, ...] = ()
    accepted_length: float | None = None  # τ, with the bonus or recovered token
    draft_acceptance_rate: float | None = None  # accepted / drafted
    drafted_per_second: float | None = None
    accepted_per_second: float | None = None
    generated_per_second: float | None = None


def read_counters(
    info: ServerInfo, *, allow_remote: bool = False, key: KeyName = SERVER_KEY
) -> Counters:
    """Read the counters of an engine from its /metrics page."""
    connection = Connection(info.address, key=key, allow_remote=allow_remote)
    page = connection.get_text("/metrics")
    if page is None:
        raise broken(connection.address, "has no /metrics page")
    engine = info.engine if info.engine in _NAMES else None
    return _counters(samples_of(page), engine, at=time.monotonic(), source=connection.address)


def counters_of_dump(text: str) -> Counters:
    """Read the counters of a saved /metrics page; its time is unknown, so ``at`` is 0."""
    return _counters(samples_of(text), None, at=0.0, source="The saved /metrics page")


def rates(before: Counters, after: Counters) -> Rates | None:
    """Return the rates from ``before`` to ``after``; None if the engine restarted in between."""
    if went_back(before, after):
        return None
    seconds = after.at - before.at
    grown = _consistent(
        Counters(
            at=seconds,
            drafts=_grown(before.drafts, after.drafts),
            drafted=_grown(before.drafted, after.drafted),
            accepted=_grown(before.accepted, after.accepted),
            accepted_at=tuple(_grown_at(before.accepted_at, after.accepted_at)),
            generated=_grown(before.generated, after.generated),
        )
    )
    drafts, share = grown.drafts, known_ratio(grown.accepted, grown.drafts)
    return Rates(
        seconds=seconds,
        alpha_by_position=alpha_by_position(grown.accepted_at, drafts) if drafts else (),
        accepted_length=None if share is None else 1 + share,
        draft_acceptance_rate=known_ratio(grown.accepted, grown.drafted),
        drafted_per_second=known_ratio(grown.drafted, seconds),
        accepted_per_second=known_ratio(grown.accepted, seconds),
        generated_per_second=known_ratio(grown.generated, seconds),
    )


def went_back(before: Counters, after: Counters) -> bool:
    """Return whether a counter is smaller than before or missing, as after a restart."""
    for each in fields(Counters):
        if each.name in ("at", _AT, "notices"):
            continue
        old, new = getattr(before, each.name), getattr(after, each.name)
        if old is not None and (new is None or new < old):
            return True
    padded = (*after.accepted_at, *(0.0 for _ in before.accepted_at[len(after.accepted_at) :]))
    return any(new < old for new, old in zip(padded, before.accepted_at, strict=False))


def _counters(
    samples: Sequence[Sample], engine: EngineName | None, *, at: float, source: str
) -> Counters:
    """Return the counters of ``engine``.

    If ``engine`` is None, return the counters of the first engine that has any counters.
    """
    present: list[EngineName] = [name for name in _NAMES if any(_of_engine(samples, name))]
    chosen = engine or next(iter(present), None)
    if chosen not in present:
        raise ServerError(
            f"{source} has no counters of vLLM, llama.cpp or SGLang.",
            remedy="Start the engine with its metrics enabled.",
        )
    notices = [
        f"Ignored counters of {ENGINES[name]} on the same page: several engines may share this "
        "address."
        for name in present
        if name != chosen
    ]
    sums, positions = _sums(samples, _NAMES[chosen], notices)
    found = Counters(at=at, **sums, accepted_at=positions, notices=tuple(notices))
    return _consistent(found)


def _of_engine(samples: Sequence[Sample], engine: EngineName) -> Iterator[Sample]:
    names = _NAMES[engine].values()
    return (each for each in samples if each.name.removesuffix(_TOTAL) in names)


def _sums(
    samples: Sequence[Sample], names: Mapping[str, str], notices: list[str]
) -> tuple[dict[str, float], tuple[float, ...]]:
    sums, positions = dict[str, float](), dict[int, float]()
    for kind, name in names.items():
        series = _series(samples, name)
        total = sum(series.values())
        if any(not 0 <= value <= _LARGEST for value in series.values()) or total > _LARGEST:
            notices.append(f"Ignored {name}: it has impossible values.")
        elif kind == _AT:
            for (place, _), value in series.items():
                if place is not None:
                    positions[place] = positions.get(place, 0.0) + value
        elif series:
            sums[kind] = total
    last = max(positions, default=-1)
    return sums, tuple(positions.get(place, 0.0) for place in range(last + 1))


def _series(samples: Sequence[Sample], name: str) -> dict[tuple[int | None, str], float]:
    """Return a counter's values by position and labels; samples may add ``_total`` to ``name``."""
    named = [each for each in samples if each.name == name + _TOTAL]
    named = named or [each for each in samples if each.name == name]
    return {(position_of(each), repr(sorted(each.labels.items()))): each.value for each in named}


def _consistent(found: Counters) -> Counters:
    """Return the counters without impossible values, such as more accepted than drafted tokens."""
    notices = list(found.notices)
    accepted, drafted = found.accepted, found.drafted
    most = _LARGEST if found.drafts is None else MAX_DRAFTED * found.drafts
    if max(accepted or 0.0, drafted or 0.0) > most:
        notices.append("Ignored candidate counters: they exceed what the rounds can draft.")
        return replace(found, drafted=None, accepted=None, accepted_at=(), notices=tuple(notices))
    if accepted is not None and drafted is not None and accepted > drafted:
        notices.append("Ignored the accepted counter: it exceeds the drafted counter.")
        return replace(found, accepted=None, accepted_at=(), notices=tuple(notices))
    ceiling = [found.drafts if found.drafts is not None else _LARGEST, *found.accepted_at]
    if any(value > before for value, before in zip(found.accepted_at, ceiling, strict=False)):
        notices.append("Ignored counters by position: a position exceeds its predecessor.")
        return replace(found, accepted_at=(), notices=tuple(notices))
    return found


def _grown(before: float | None, after: float | None) -> float | None:
    """Return the increase of a counter; an unknown earlier value counts as 0."""
    return None if after is None else after - (before or 0.0)


def _grown_at(before: Sequence[float], after: Sequence[float]) -> list[float]:
    old = (*before, *(0.0 for _ in after[len(before) :]))
    return [new - each for new, each in zip(after, old, strict=True)]

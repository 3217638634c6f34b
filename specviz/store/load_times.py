"""Store how long pairs took to load on this machine, and estimate how long a pair will take.

Downloads do not count. There is no estimate for pairs at a simulated size, or for models that are
not on this machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from specviz.errors import ModelFileError
from specviz.local_models.headers import Headers
from specviz.local_models.local_model import ModelFacts
from specviz.local_models.searching import path_at
from specviz.record.numbers import counted, time_text
from specviz.record.pairs import PairSpec
from specviz.store.kept_values import change_value, load_value
from specviz.values import Value

_KIND = "load-times"
_MOST_LOADS = 40  # loads stored under one key; the oldest are dropped
_MOST_USED = 5  # an estimate uses at most this many loads, the latest
_LARGEST_RATIO = 2.0  # larger / smaller pair in bytes, for an earlier load to count


class _Load(Value):
    file_bytes: int  # of the weights of both models
    seconds: float


class _Loads(Value):
    """The latest loads of the pairs that share a key (see ``_key``), the newest last."""

    loads: tuple[_Load, ...] = ()


class ExpectedLoad(Value):
    """The range of seconds that a load may take, estimated from ``num_loads`` earlier loads."""

    low: float
    high: float
    num_loads: int

    @property
    def time(self) -> str:
        """Return text such as "about 1.2 s" or "1.2 s to 3.4 s"."""
        low, high = _seconds_text(self.low), _seconds_text(self.high)
        return f"about {low}" if low == high else f"{low} to {high}"

    @property
    def sentence(self) -> str:
        loads = counted(self.num_loads, "earlier load")
        return f"Loading takes {self.time} (from {loads} on this machine)."


def keep_load_time(spec: PairSpec, seconds: float) -> None:
    """Store how long a pair took to load, for estimates of later loads."""
    headers = Headers()
    models = _facts_of(spec, headers)
    headers.save()
    if not models:
        return
    load = _Load(file_bytes=_file_bytes(models), seconds=seconds)

    def added(known: _Loads | None) -> _Loads:
        earlier = known.loads if known is not None else ()
        return _Loads(loads=(*earlier, load)[-_MOST_LOADS:])

    change_value(_KIND, _key(spec, models), _Loads, added)


def expected_load(spec: PairSpec, headers: Headers) -> ExpectedLoad | None:
    """Estimate how long the pair takes to load; None without an earlier load of a similar pair.

    A similar pair has the same formats, families, types of weights and options, and its size
    differs by at most a factor of ``_LARGEST_RATIO``. Part of the time is proportional to the bytes
    and part is constant, but the shares are unknown. So one end of the range assumes that all
    of the time is proportional, the other end that all of the time is constant. Only the latest
    loads of the nearest size are used.
    """
    models = _facts_of(spec, headers)
    known = load_value(_KIND, _key(spec, models), _Loads) if models else None
    file_bytes, loads = _file_bytes(models), known.loads if known is not None else ()
    times = [(file_bytes / each.file_bytes, each.seconds) for each in loads if each.file_bytes > 0]
    nearest = min((_distance(ratio) for ratio, _ in times), default=math.inf)
    if nearest > _LARGEST_RATIO:
        return None
    near = [each for each in times if _distance(each[0]) == nearest][-_MOST_USED:]
    return ExpectedLoad(
        low=min(seconds * min(1.0, ratio) for ratio, seconds in near),
        high=max(seconds * max(1.0, ratio) for ratio, seconds in near),
        num_loads=len(near),
    )


def _distance(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _facts_of(spec: PairSpec, headers: Headers) -> tuple[ModelFacts, ...]:
    """Return the ``ModelFacts`` of target and draft; empty if no estimate is possible."""
    if spec.has_bodies or spec.served:
        return ()
    places = (spec.target_place, spec.draft_place)
    facts = [_facts_at(each, headers) for each in places if each is not None]
    known = tuple(each for each in facts if each is not None and each.file_bytes)
    return known if len(known) == len(facts) else ()


def _facts_at(place: str, headers: Headers) -> ModelFacts | None:
    try:
        path = path_at(place)
    except (ModelFileError, OSError, RuntimeError):  # RuntimeError: no home folder
        return None
    return headers.facts(path).facts if path is not None else None


def _file_bytes(models: Sequence[ModelFacts]) -> int:
    return sum(each.file_bytes for each in models)


def _key(spec: PairSpec, models: Sequence[ModelFacts]) -> str:
    weights = (spec.target_weights, spec.draft_weights)
    kinds = [
        f"{each.format} {each.family} {each.head} {each.quantization} {weight}"
        for each, weight in zip(models, weights, strict=False)
    ]
    options = f"{spec.device} {spec.dtype} {spec.step} {spec.shared_vocabulary}"
    return ", ".join([options, *kinds])


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else time_text(seconds)

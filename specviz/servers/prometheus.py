"""Samples of a page of metrics in the text format of Prometheus. What is none is left out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_SAMPLES = 100_000
_SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(?P<value>\S+)',
    re.ASCII,
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"', re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


def samples_of(text: str) -> tuple[Sample, ...]:
    found = list[Sample]()
    for line in text.splitlines():
        if len(found) >= MAX_SAMPLES:
            break
        if not line.startswith("#") and (sample := _sample(line.strip())) is not None:
            found.append(sample)
    return tuple(found)


def largest_position(samples: Sequence[Sample], name: str) -> int | None:
    """How many positions are counted under this name; None without any."""
    held = (each.labels.get("position", "") for each in samples if each.name == name)
    return max((int(each) + 1 for each in held if each.isdecimal()), default=None)


def _sample(line: str) -> Sample | None:
    match = _SAMPLE.match(line)
    if match is None:
        return None
    try:
        value = float(match["value"])
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return Sample(
        name=match["name"], labels=dict(_LABEL.findall(match["labels"] or "")), value=value
    )

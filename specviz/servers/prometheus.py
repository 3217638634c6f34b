"""Parse the samples of a page in Prometheus's text format; other lines are ignored.

Parsing takes time linear in the size of the page: lines are bounded, and no pattern backtracks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from specviz.record.limits import MAX_DRAFTED
from specviz.values import Value

MAX_SAMPLES = 100_000
_LONGEST_LINE = 10_000  # characters
_LONGEST_POSITION = 4  # digits
_SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(?P<value>\S+)',
    re.ASCII,
)
_LABEL = re.compile(r'(?<!\w)([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"', re.ASCII)


class Sample(Value):
    name: str
    labels: Mapping[str, str]
    value: float


def samples_of(text: str) -> tuple[Sample, ...]:
    found = list[Sample]()
    for line in text.splitlines():
        if len(found) >= MAX_SAMPLES:
            break
        if line.startswith("#") or len(line) > _LONGEST_LINE:
            continue
        if (sample := _sample(line.strip())) is not None:
            found.append(sample)
    return tuple(found)


def position_of(sample: Sample) -> int | None:
    """Return a sample's position in a round, or None without a valid position."""
    text = sample.labels.get("position", "")
    if not (text.isascii() and text.isdecimal()) or len(text) > _LONGEST_POSITION:
        return None
    return int(text) if int(text) < MAX_DRAFTED else None


def num_positions(samples: Sequence[Sample], name: str) -> int | None:
    """Return the number of positions (the largest plus 1); None if no sample has a position."""
    positions = (position_of(each) for each in samples if each.name == name)
    return max((each + 1 for each in positions if each is not None), default=None)


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

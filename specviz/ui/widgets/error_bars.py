"""Values with intervals, and their error bars in charts."""

from __future__ import annotations

from collections.abc import Iterable

from specviz.values import Value

Ends = tuple[float, float | None, float | None]


class Reading(Value):
    """A value with its interval; ``low`` and ``high`` are None if there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> Ends:
        return self.value, self.low, self.high


def error_bars(ends: Iterable[Ends], colour: str, **style: float) -> dict[str, object]:
    """Return asymmetric error bars, of length 0 where there is no interval.

    Args:
        ends: For each point, its value and the two ends of its interval.
        style: Further properties of Plotly's error bars, such as ``thickness``.
    """
    points = list(ends)
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if high is None else high - value for value, _, high in points],
        "arrayminus": [0.0 if low is None else value - low for value, low, _ in points],
        "color": colour,
        **style,
    }

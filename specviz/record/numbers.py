"""Number formats: one ``Quantity`` for each kind of number, wherever it is shown.

Digits are fixed, so that columns of numbers align. A ratio is "1.43×" in tables and "1.43 times" in
sentences. Bytes are decimal: a kilobyte has 1000. Unknown values are shown as a dash.
"""

from __future__ import annotations

from specviz.values import Value

__all__ = [
    "COST",
    "COUNT",
    "GAMMA",
    "MILLISECONDS",
    "MILLISECONDS_PER_TOKEN",
    "PERCENT",
    "PROBABILITY",
    "RATE",
    "RATIO",
    "SIZE",
    "STEPS",
    "TOKENS",
    "UNKNOWN",
    "Quantity",
    "counted",
    "time_text",
    "times",
]

UNKNOWN = "–"
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_THREE_DIGITS = 999.5  # from here on a number would round to four digits


class Quantity(Value):
    """The format of one kind of number: its digits after the decimal point, and its unit."""

    digits: int
    unit: str = ""
    factor: float = 1.0  # the shown number is this times the value
    share: bool = False  # from 0 to 1; the ends of an interval are clipped to that

    def bare(self, value: float) -> str:
        """Return the number without its unit."""
        return f"{self.factor * value:.{self.digits}f}"

    def shown(self, value: float | None) -> str:
        return UNKNOWN if value is None else f"{self.bare(value)}{self.unit}"

    def signed(self, value: float | None) -> str:
        """Return a difference with its sign."""
        if value is None:
            return UNKNOWN
        return f"{self.factor * value:+.{self.digits}f}{self.unit}".replace("-", "−")

    def span(self, low: float, high: float) -> str:
        """Return a range without its unit, such as "1.20–1.43"."""
        return f"{self._end(low)}–{self._end(high)}"

    def between(self, low: float, high: float) -> str:
        """Return a range with its unit at the end."""
        return f"{self.span(low, high)}{self.unit}"

    def spread(self, value: float | None, low: float | None, high: float | None) -> str:
        """Return a value and its range.

        The range is left out if it is unknown or if both ends round to the value.
        """
        if value is None or low is None or high is None:
            return self.shown(value)
        if self._end(low) == self._end(high) == self.bare(value):
            return self.shown(value)
        return f"{self.shown(value)} ({self.span(low, high)})"

    def hover(self, place: str = "y") -> str:
        """Return Plotly's hover text for the variable ``place``, such as ``%{y:.2f}×``."""
        if self.factor == 100:
            return f"%{{{place}:.{self.digits}%}}"
        assert self.factor == 1, "charts draw unscaled values"
        return f"%{{{place}:.{self.digits}f}}{self.unit}"

    @property
    def column(self) -> str:
        """The printf format of a table column on a page."""
        assert self.factor == 1, "columns show unscaled values"
        return f"%.{self.digits}f{self.unit}"

    def _end(self, value: float) -> str:
        return self.bare(min(1.0, max(0.0, value)) if self.share else value)


class _Size(Quantity):
    """The format of bytes: three digits and the unit that fits, as in "12.3 kB" or "1.23 GB"."""

    def bare(self, value: float) -> str:
        size = float(value)
        for unit in _SIZES[:-1]:
            if abs(size) < _THREE_DIGITS:
                return f"{size:.3g} {unit}"
            size /= 1000
        return f"{size:.3g} {_SIZES[-1]}"


class _Count(Quantity):
    """The format of a number of parameters, as in "6.1 M", "88 M" or "1.0 B"."""

    def bare(self, value: float) -> str:
        size, unit = (value / 1e9, "B") if value >= 0.9995e9 else (value / 1e6, "M")
        return f"{size:.1f} {unit}" if size < 9.95 else f"{size:.0f} {unit}"


PROBABILITY = Quantity(digits=3, share=True)
RATIO = Quantity(digits=2, unit="×")
NATS = Quantity(digits=4)
COST = Quantity(digits=3)  # of a draft step, in target steps
STEPS = Quantity(digits=2)  # of a round or a verification, in target steps
TOKENS = Quantity(digits=2)  # tokens per round
GAMMA = Quantity(digits=0)
RATE = Quantity(digits=1)  # tokens per second
MILLISECONDS = Quantity(digits=1, unit=" ms")
MILLISECONDS_PER_TOKEN = Quantity(digits=2, unit=" ms")
PERCENT = Quantity(digits=1, unit=" %", factor=100)
WHOLE_PERCENT = Quantity(digits=0, unit=" %", factor=100)
SIZE = _Size(digits=3)
COUNT = _Count(digits=2)  # of parameters


def times(value: float) -> str:
    """Return a ratio for a sentence, such as "1.43 times"."""
    return f"{RATIO.bare(value)} times"


def counted(count: int, name: str) -> str:
    """Return a count with its noun, such as "1 token" or "2,000 tokens"."""
    return f"{count:,} {name}{'s' * (count != 1)}"


def time_text(seconds: float) -> str:
    """Return an estimated time, such as "45 s" or "3 min"."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

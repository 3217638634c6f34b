"""What a page shows of a claim: the quote, verdict, finding, and where the verdict changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from specviz.values import Value

ClaimVerdict = Literal["Holds", "Holds within limits", "Does not hold"]
Source = Literal[
    "Practical guide", "Overview of Yin et al.", "sd_optimization", "transformers",
    "Sun et al. 2024",
]  # fmt: skip
PageName = Literal["speed", "rejections", "bias", "misleading"]
RunName = Literal[
    "speed", "estimates", "residual", "temperature", "kinds", "verification", "benchmark",
    "rejections", "pareto", "drafts", "blocks",
]  # fmt: skip

Basis = Literal["exact", "reported"]  # numbers are computed here, or taken from a report

GUIDE: Source = "Practical guide"
OVERVIEW: Source = "Overview of Yin et al."
OPTIMIZATION: Source = "sd_optimization"
MANUAL: Source = "transformers"
BLOCKS: Source = "Sun et al. 2024"

_HALVINGS = 60
_ROUNDING = 1e-6  # tolerance for flips at round numbers, in units of the last digit


class Figure(Value):
    """A number on which a claim's verdict is based, with its label and format."""

    label: str
    value: float
    form: str = ".2f"
    unit: str = ""

    @property
    def text(self) -> str:
        return f"{self.value:{self.form}}{self.unit}"


class Chart(Value):
    """A link to the page with the claim's chart; ``settings`` are the link's query parameters."""

    page: PageName
    label: str
    settings: tuple[tuple[str, float | str], ...] = ()

    @property
    def query(self) -> dict[str, str]:
        """The settings as query parameters."""
        return {
            key: value if isinstance(value, str) else f"{value:g}" for key, value in self.settings
        }


class Claim(Value):
    """A quote from a source, with its verdict.

    ``flip`` states where the verdict would change. ``run`` names the runs that can test the claim.
    ``latex`` is a formula of the finding. ``symbols`` explains the letters in the formula.
    """

    id: str
    source: Source
    quote: str
    verdict: ClaimVerdict
    finding: str
    flip: str
    figures: tuple[Figure, ...]
    chart: Chart
    run: RunName | None = None
    basis: Basis = "exact"
    latex: str = ""
    symbols: tuple[tuple[str, str], ...] = ()


def speed_chart(label: str, tab: str = "Over γ", **settings: float) -> Chart:
    """Return a link to a chart of the Speed page with v = 1, as in the sources.

    ``settings`` are ``alpha``, ``c`` and ``gamma``; they are rounded to keep the link readable.
    """
    chosen = ((f"speed_{name}", round(value, 3)) for name, value in settings.items())
    return Chart(page="speed", label=label, settings=(("speed_tab", tab), ("speed_v", 1), *chosen))


def tokens_chart(alpha: float, gamma: int) -> Chart:
    """Return a link to the chart of tokens per round, at the settings where the verdict changes."""
    return speed_chart(
        "Tokens per round where the verdict changes", "Tokens a round", alpha=alpha, gamma=gamma
    )


def verdict_for(cases: Iterable[bool]) -> ClaimVerdict:
    """Return the verdict on a claim: whether it is true in all, some or none of the tested cases.

    ``cases`` holds, for each case, whether the claim is true in it.
    """
    seen = tuple(cases)
    assert seen
    if all(seen):
        return "Holds"
    return "Holds within limits" if any(seen) else "Does not hold"


def crossing(difference: Callable[[float], float], low: float, high: float) -> float:
    """Return the number between ``low`` and ``high`` at which ``difference`` changes its sign.

    The number is found by bisection. ``difference`` need not be continuous, but it must change its
    sign exactly once.
    """
    below = difference(low) < 0
    assert (difference(high) < 0) != below, "no sign change between the ends"
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (difference(middle) < 0) == below:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def rounded_down(value: float, places: int = 3) -> float:
    """Return ``value``, rounded down.

    If a claim holds for all numbers up to ``value``, it also holds for the result.
    """
    return math.floor(value * 10**places + _ROUNDING) / 10**places


def rounded_up(value: float, places: int = 3) -> float:
    """Return ``value``, rounded up.

    If a claim holds for all numbers from ``value`` on, it also holds for the result.
    """
    return math.ceil(value * 10**places - _ROUNDING) / 10**places


def holds_up_to(difference: Callable[[float], float], low: float, high: float) -> float:
    """Return the largest value up to which a claim holds, found by bisection and rounded down.

    The claim holds as long as ``difference`` keeps the sign that it has at ``low``.
    """
    return rounded_down(crossing(difference, low, high))


def holds_from(
    difference: Callable[[float], float], low: float, high: float, places: int = 3
) -> float:
    """Return the smallest value from which a claim holds, found by bisection and rounded up.

    The claim holds as long as ``difference`` has the sign that it has at ``high``.
    """
    return rounded_up(crossing(difference, low, high), places)


def first(holds: Callable[[int], bool], start: int, end: int) -> int:
    """Return the smallest number from ``start`` to ``end`` for which ``holds`` is true."""
    found = next((each for each in range(start, end + 1) if holds(each)), None)
    assert found is not None, (start, end)
    return found

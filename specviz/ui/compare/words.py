"""Words beside the figures of a comparison: its verdict's head, and each kind's intervals."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.comparison import KindResult, interval_units
from specviz.ui.widgets.plain_text import as_text

NO_KIND = "no kind"


def first_sentence(text: str) -> str:
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def kinds_with_intervals(kinds: Sequence[KindResult]) -> str:
    """The same for each kind of text; those unlike the others are named."""
    groups: dict[str, list[str]] = {}
    for each in kinds:
        groups.setdefault(_of_kind(each), []).append(as_text(each.kind or NO_KIND))
    if len(groups) == 1:
        return f"{next(iter(groups)).capitalize()}."
    told = (f"{words} for {', '.join(names)}" for words, names in sorted(groups.items()))
    return f"{'; '.join(told).capitalize()}."


def _of_kind(kind: KindResult) -> str:
    units = interval_units(
        ratio for lane in kind.lanes for ratio in (lane.speedup_ratio, lane.expected)
    )
    return f"95 % intervals over {' or '.join(units)}" if units else "no intervals, with one run"

"""A large live view of the block in progress: a component from ``assets/load_wall``.

In a block, one lane (an engine with or without speculation) is measured at one load: a number of
users or of requests per second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from specviz.figures.load_words import level_words
from specviz.load.live import MOST_USERS, LoadNow, UserState
from specviz.load.load_job import LoadJob
from specviz.record.load_run import LoadMode
from specviz.record.numbers import UNKNOWN
from specviz.ui.widgets.asset_component import asset_component

_mount = asset_component("load_wall")
_ORDER: tuple[UserState, ...] = ("decoding", "prefill", "pausing", "idle")


def show_wall(job: LoadJob, now: LoadNow | None) -> None:
    _mount(key="load_wall", data=wall_data(now, job.order.settings.mode))


def wall_data(now: LoadNow | None, mode: LoadMode) -> dict[str, Any]:
    """Return the data of the live view; while no block is in progress, the values are dashes."""
    if now is None:
        figures = [_figure(name, label, UNKNOWN) for name, label in _LABELS.items()]
        return {
            "lane": "Between two blocks", "level": "", "block": "", "done": 0.0,
            "figures": figures, "users": [], "counts": "",
        }  # fmt: skip
    left = max(0.0, now.seconds - now.elapsed)
    shown = {
        "rate": f"{now.tokens_per_second:,.0f}",
        "flight": f"{now.in_flight}",
        "left": f"{left:.0f} s",
        "failures": f"{now.failures:,}",
    }
    states = now.users[:MOST_USERS]
    return {
        "lane": now.lane.label,
        "level": level_words(now.level, mode),
        "block": f"block {now.block} of {now.blocks}",
        "done": min(1.0, now.elapsed / now.seconds) if now.seconds else 0.0,
        "figures": [
            _figure(name, label, shown[name], alert=name == "failures" and now.failures > 0)
            for name, label in _LABELS.items()
        ],
        "users": list(states),
        "counts": _counts(states),
    }


_LABELS = {
    "rate": "tokens/s now",
    "flight": "in flight",
    "left": "left",
    "failures": "failures",
}


def _figure(name: str, label: str, shown: str, *, alert: bool = False) -> dict[str, Any]:
    return {"id": name, "label": label, "shown": shown, "alert": alert}


def _counts(states: Sequence[UserState]) -> str:
    found = Counter(states)
    return ", ".join(f"{found[each]} {each}" for each in _ORDER if found[each])

"""A theory page in bare mode, reached from the first page as a visitor reaches it."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.ui.paging import opened, sound

LIMIT_MS = 300


def page(name: str, **link: str) -> AppTest:
    app = opened()
    app.switch_page(f"pages/{name}.py")
    for key, value in link.items():
        app.query_params[key] = value
    return sound(app.run())


def charts(app: AppTest) -> dict[str, Any]:
    """The plotly figures of the page by their key."""
    return {
        each.proto.id.rsplit("-", 1)[-1]: json.loads(each.proto.spec)
        for each in app.get("plotly_chart")
    }


def words(app: AppTest) -> str:
    return " ".join(each.value for each in (*app.markdown, *app.caption))


def median_ms(app: AppTest, change: Callable[[AppTest, int], None], times: int = 5) -> float:
    """Server time of a rerun after a change, the median of some.

    Of the processor: these pages wait for nothing, and a clock would time a busy machine's
    other work.
    """
    spent = []
    for turn in range(times):
        change(app, turn)
        began = time.process_time()
        sound(app.run())
        spent.append(1000 * (time.process_time() - began))
    return statistics.median(spent)

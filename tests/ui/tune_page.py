"""The Tune page of a link, and the text that it sends to the browser."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.ui.paging import page_of


def tune_page(**link: str) -> AppTest:
    return page_of("tune", **link)


def odds_text(app: AppTest) -> dict[str, Any]:
    """Return the data sent to the browser."""
    return json.loads(app.get("bidi_component")[0].proto.json)

"""A text as a heat map of its odds, drawn in the browser: token text travels only as data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from streamlit.components.v2 import component

from specviz import ASSETS
from specviz.player.script_modules import component_script

_FOLDER = ASSETS / "odds_text"
_mount = component(
    "specviz_odds_text",
    js=component_script(ASSETS, "odds_text/odds_text.js"),
    css=(_FOLDER / "odds_text.css").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def show_odds_text(
    prompt: str,
    texts: Sequence[str],
    odds: Sequence[float | None],
    *,
    key: str,
    ends: Mapping[int, str] | None = None,
) -> None:
    """``ends``: with which tokens a round of a run ended, and how: recovered or bonus."""
    content = {
        "prompt": prompt,
        "texts": list(texts),
        "odds": [None if each is None else round(each, 3) for each in odds],
        "ends": {str(place): kind for place, kind in (ends or {}).items()},
    }
    name = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    label = "The text; each token's ground says how likely it was to be accepted"
    _mount(key=key, data={"id": name, "label": label, **content})

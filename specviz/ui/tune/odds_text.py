"""A text as a heat map of its acceptance probabilities, drawn in the browser.

Token text is sent only as data, never as HTML.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from specviz.ui.widgets.asset_component import asset_component

_mount = asset_component("odds_text")


def show_odds_text(
    prompt: str,
    texts: Sequence[str],
    odds: Sequence[float | None],
    *,
    key: str,
    ends: Mapping[int, str] | None = None,
) -> None:
    """Draw the text. The background of each token shows its acceptance probability.

    Args:
        odds: Acceptance probability per token; None for a token that was not scored.
        ends: For each round, the position of its last token, mapped to ``recovered`` or ``bonus``.
    """
    content = {
        "prompt": prompt,
        "texts": list(texts),
        "odds": [None if each is None else round(each, 3) for each in odds],
        "ends": {str(index): kind for index, kind in (ends or {}).items()},
    }
    name = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    label = "The text. The background of a token shows its acceptance probability"
    _mount(key=key, data={"id": name, "label": label, **content})

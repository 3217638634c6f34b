"""The draggable distributions of draft and target at one position of the run in the player.

The step about rejection uses the distributions to explain the verdict on a drafted token. The step
about the residual also draws tokens from them, by the correct and by the broken rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from specviz.record.numbers import PERCENT
from specviz.record.token_text import token_label
from specviz.ui.learn.checks import text_of
from specviz.ui.learn.drawn_tokens import (
    MOST_DRAWS,
    DrawnTokens,
    Position,
    chart,
    none_drawn,
    position_of,
)
from specviz.ui.learn.pictures import name_of
from specviz.ui.learn.steps import ENOUGH_DRAWS
from specviz.ui.session.history import ShownRun
from specviz.ui.widgets.distribution_bars import show_bars
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text

DRAWING = "learn_drawing"  # the key of the toggle
_DRAWS = "learn draws"


def show_position(run: ShownRun, step: str) -> None:
    """Draw the bars of the step about rejection or of the step about the residual."""
    position = position_of(run.trace)
    if position is None:
        st.caption(text_of("page")["no_position"])
        return
    going = step == "residual" and _is_drawing()

    @st.fragment(run_every=0.5 if going else None)
    def show() -> None:
        words = text_of(f"steps/{step}")["picture"]
        draft, target = show_bars(
            position.draft.tolist(), position.target.tolist(), position.texts, key="position_bars"
        )
        st.markdown("  \n".join(_sentences(position, draft, target, words)))
        st.caption(
            words["caption"].format(run=as_text(name_of(run)), round=f"{position.entry + 1:d}")
        )
        if step == "residual":
            _draw_tokens(position, draft, target, going)

    show()


def draws() -> int:
    """Return how many tokens each of the two rules has drawn in the simulation."""
    found: DrawnTokens | None = st.session_state.get(_DRAWS)
    return found.draws if found else 0


def _is_drawing() -> bool:
    return bool(st.session_state.get(DRAWING)) and draws() < MOST_DRAWS


def _sentences(
    position: Position, draft: Sequence[float], target: Sequence[float], words: dict[str, str]
) -> list[str]:
    """Return sentences on the drafted token and on all tokens, with the bars' values."""
    one, other = draft[position.guess], target[position.guess]
    accepted = float(np.minimum(draft, target).sum())
    numbers = {
        "token": f"**{as_text(token_label(position.texts[position.guess]))}**",
        "draft": PERCENT.shown(one), "target": PERCENT.shown(other),
        "odds": f"{min(1.0, other / one if one else 1.0):.2f}",
        "accepted": PERCENT.shown(accepted), "rejected": PERCENT.shown(1.0 - accepted),
    }  # fmt: skip
    guess = words.get("surely" if other >= one else "odds", "")
    return [each.format(**numbers) for each in (guess, words["shares"]) if each]


def _draw_tokens(
    position: Position, draft: Sequence[float], target: Sequence[float], going: bool
) -> None:
    """Chart how often each token was drawn. If ``going``, first draw a further batch of tokens.

    If the user has changed a bar, the counts restart at 0.
    """
    found: DrawnTokens | None = st.session_state.get(_DRAWS)
    if found is None or not np.array_equal(found.probs, (draft, target)):
        found = st.session_state[_DRAWS] = none_drawn(position.texts, draft, target)
    before = found.draws
    if going:
        found.draw(np.random.default_rng([7, before]))
    note = text_of("page")["draws"].format(count=f"{found.draws:,}")
    show_chart(chart(found), note, "simulated", key="drawn_tokens")
    if before < ENOUGH_DRAWS <= found.draws or _is_drawing() != going:
        st.rerun()  # only a rerun of the page starts or ends the fragment's timer

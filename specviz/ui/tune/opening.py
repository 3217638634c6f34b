"""Open results of Tune on other pages: one setting on Watch, the first rows on Compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from specviz.access.roles import Action
from specviz.comparison.plan import MAX_LANES
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.tune.answer import Answer, Candidate
from specviz.tune.measuring import Choice, plan_of_cells
from specviz.tune.surface import Cell
from specviz.ui.compare.lanes import LANES_HANDOVER, lane_text
from specviz.ui.compare.settings import take_settings
from specviz.ui.session.person import the_person
from specviz.ui.session.presses import press
from specviz.ui.widgets.pair_boxes import put_pair, set_bodies, shown_pair
from specviz.ui.widgets.prompt_boxes import EARLIER
from specviz.ui.widgets.run_controls import apply_settings, unsupported_settings

_GO = "tune go to watch"


def take_watch_handover() -> bool:
    """Return whether a setting was just handed over to Watch; the next call returns False."""
    return bool(st.session_state.pop(_GO, False))


def offer_watch(answer: Answer, candidate: Candidate, cell: Cell, *, key: str) -> None:
    """Draw a button that opens the setting on Watch; draw nothing if Watch cannot run it."""
    config = _config(candidate, cell)
    unwatchable = candidate.lane.spec.served or answer.question.text is not None
    if unwatchable or unsupported_settings(config) or not the_person().may(Action.RUN):
        return
    prompt = answer.question.items[0].prompt
    st.button("Watch this setting", key=key, on_click=_to_watch, args=(prompt, candidate, cell))


def offer_rows(answer: Answer) -> None:
    """Draw controls to open a row of the ranking on Watch, or the first rows on Compare."""
    rows = answer.ranked
    if not the_person().may(Action.MEASURE):
        return
    if answer.question.text is not None or any(each.lane.spec.served for each, _ in rows):
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="tune_open"):
        label = st.selectbox("Open", [each.label for each, _ in rows], key="tune_row")
        chosen = next((row for row in rows if row[0].label == label), rows[0])
        offer_watch(answer, *chosen, key="tune_watch_row")
        count = min(MAX_LANES, len(rows))
        if count > 1 and st.button(f"Compare the first {count}", key="tune_compare"):
            _to_compare(answer, rows[:count])


def _config(candidate: Candidate, cell: Cell) -> RunConfig:
    return replace(candidate.lane.config, gamma=cell.gamma, temperature=cell.temperature)


def _to_watch(prompt: str, candidate: Candidate, cell: Cell) -> None:
    spec = candidate.lane.spec
    shown = shown_pair()
    if shown is None or _places(shown) != _places(spec):
        put_pair(spec.target_place, spec.draft_place or "")
    set_bodies(spec.target_body, spec.draft_body)  # without it, Watch would offer a default body
    apply_settings(prompt, _config(candidate, cell))
    st.session_state.pop(EARLIER, None)  # a conversation would precede the prompt
    press("run")
    st.session_state[_GO] = True


def _places(spec: PairSpec) -> tuple[str, str | None]:
    return spec.target_place, spec.draft_place


def _to_compare(answer: Answer, choices: Sequence[Choice]) -> None:
    """Open Compare with these choices as lanes, and with the question's prompts and length."""
    plan = plan_of_cells(choices, answer.question.items, repeats=1)
    st.session_state[LANES_HANDOVER] = texts = [lane_text(each) for each in plan.lanes]
    take_settings(plan)
    st.switch_page("pages/compare.py", query_params={"lane": texts})

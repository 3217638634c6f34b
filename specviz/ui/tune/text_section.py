"""Acceptance probabilities along a text: per token, by kind of token, by kind of prompt."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.figures.token_kinds import by_token_kind
from specviz.record.numbers import PROBABILITY
from specviz.record.prompts import NO_KIND
from specviz.record.scores import ScoredText
from specviz.record.token_text import added_texts
from specviz.tune.advice import FOREIGN_TEXT_NOTE
from specviz.tune.answer import Answer
from specviz.tune.methods import is_plain
from specviz.ui.tune.charts import kinds_chart
from specviz.ui.tune.odds_text import show_odds_text
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text

_HEAD = 40  # letters


def show_text(answer: Answer) -> None:
    drafted = (each for each in answer.candidates if each.config.draft_method.needs_draft)
    candidate = next((each for each in drafted if is_plain(each.config)), None)
    texts = candidate.at(answer.temperature) if candidate else []
    if not texts:
        st.caption("No text has been scored with a draft model.")
        return
    text = texts[0] if len(texts) == 1 else st.selectbox(
        "Text", texts, format_func=_text_head, key="tune_text_shown"
    )  # fmt: skip
    assert text is not None
    scores = text.scores
    assert scores is not None
    impossible = scores.impossible_at
    if impossible is not None:
        st.warning(
            f"The target cannot generate this text with these sampling settings: token "
            f"{impossible + 1} has probability 0."
        )
    pieces = added_texts(text.token_ids, text.token_texts, text.pieces)
    show_odds_text(text.prompt.text, pieces, scores.odds, key="tune_odds_text")
    st.caption(
        ":blue-badge[exact] Colours show the probability that a token of this text comes from an "
        "accepted candidate. For a fixed text, this probability is min(1, draft / target)."
        + ("" if text.own else f" {FOREIGN_TEXT_NOTE}")
    )
    show_chart(
        kinds_chart(by_token_kind(pieces, scores.odds)),
        "Points show the mean acceptance probability of each kind of token. Frequent kinds have "
        "95 % intervals.",
        "exact", key="tune_token_kinds", alt="Mean acceptance probability by kind of token",
    )  # fmt: skip
    _show_kinds_of_prompt(texts)


def _text_head(text: ScoredText) -> str:
    """Return the prompt's kind, and the beginnings of the prompt and of its continuation."""
    kind = f"{text.prompt.kind} · " if text.prompt.kind else ""
    return f"{kind}{_head(text.prompt.text)} → {_head(''.join(text.token_texts))}"


def _head(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _HEAD else f"{words[: _HEAD - 1]}…"


def _show_kinds_of_prompt(texts: Sequence[ScoredText]) -> None:
    by_kind: dict[str, list[float]] = {}
    for each in texts:
        if each.scores is not None:
            by_kind.setdefault(each.prompt.kind or NO_KIND, []).extend(each.scores.odds)
    if len(by_kind) < 2:
        return
    rows = {
        as_text(kind): [PROBABILITY.bare(sum(odds) / len(odds)), str(len(odds))]
        for kind, odds in by_kind.items()
    }
    st.caption(
        ":blue-badge[exact] The table shows the mean acceptance probability of each kind of prompt."
    )
    st.table(
        pd.DataFrame.from_dict(
            rows, orient="index", columns=["mean acceptance probability", "tokens"]
        ),
        border="horizontal",
    )

"""Draw the analysis of a saved run, and the expected and observed speedups of all saved runs.

The analysis has three parts: a waterfall chart from the textbook speedup to the observed speedup,
the acceptance along the text, and metrics as other engines define them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.errors import SpecvizError
from specviz.figures.engine_figures import HOW_ENGINES_DIFFER, EngineFigure, engine_figures
from specviz.figures.metrics import metrics
from specviz.figures.waterfall import WaterfallStep, waterfall, why_no_waterfall
from specviz.record.numbers import MILLISECONDS_PER_TOKEN, PROBABILITY, RATIO, UNKNOWN
from specviz.record.token_text import added_texts, emitted_tokens
from specviz.record.trace import Trace
from specviz.store import Query, RunRow
from specviz.tune.ledger import ledger_sentence
from specviz.ui.runs.table import title_of
from specviz.ui.session.run_saving import the_library
from specviz.ui.tune.charts import LedgerPoint, ledger_chart, waterfall_chart
from specviz.ui.tune.odds_text import show_odds_text
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text, show_error

_OFFERED = 50  # most kept runs to choose from, newest first
_LEDGER = 500


def show_run_findings() -> None:
    """Let the user choose a saved run with a measured speedup, and show its analysis."""
    rows = the_library().find(Query(rules=("lossless",), limit=_OFFERED))
    timed = [each for each in rows if each.summary.speedup is not None]
    if not timed:
        st.info("No kept run has a measured speedup yet. Start a run on Watch.")
        return
    row = st.selectbox("Run", timed, format_func=_run_title, key="tune_run")
    assert row is not None
    try:
        trace = the_library().open(row.id)
    except SpecvizError as problem:
        show_error(problem)
        return
    _show_waterfall(trace)
    _show_run_text(trace)
    _show_definitions(trace)


def _run_title(row: RunRow) -> str:
    summary = row.summary
    when = summary.created.replace("T", " ")[:16]
    setting = f"{summary.drafter}, γ {summary.gamma}, T {summary.temperature:g}"
    return f"{title_of(row)} · {setting} · {when}"


def _show_waterfall(trace: Trace) -> None:
    figures = metrics(trace, intervals=False)
    found = waterfall(trace, figures)
    if found is None:
        st.info(as_text(why_no_waterfall(trace, figures)))
        return
    show_chart(
        waterfall_chart(found),
        "The bars lead from the textbook speedup to the observed speedup, cause by cause. Their "
        "sizes depend on the order of the causes, which is the same for every run.",
        "measured", key="tune_waterfall",
        alt="Waterfall from the textbook speedup to the observed speedup",
    )  # fmt: skip
    with st.expander("Explanation", key="tune_waterfall_words"):
        for each in found.steps:
            change = "" if each.is_level else f" ({_change_text(each)})"
            st.markdown(f"**{as_text(each.name.capitalize())}**{change}: {as_text(each.words)}")


def _change_text(step: WaterfallStep) -> str:
    faster, longer = ("−" if each < 0 else "+" for each in (step.change, step.change_ms))
    speedup = RATIO.shown(abs(step.change))
    return (
        f"{faster}{speedup}, {longer}{MILLISECONDS_PER_TOKEN.shown(abs(step.change_ms))} per token"
    )


def _show_run_text(trace: Trace) -> None:
    """Draw the run's text with its rounds and, if known, each token's acceptance probability."""
    st.markdown("#### Acceptance along the text")
    tokens = list(emitted_tokens(trace.rounds))
    ids, texts = [each.token_id for _, each in tokens], [each.text for _, each in tokens]
    pieces = added_texts(ids, texts, trace.pieces, trace.text)
    count = min(len(pieces), len(trace.token_ids))
    odds: Sequence[float | None] = trace.odds or [None] * count
    show_odds_text(
        trace.prompt.text, pieces[:count], odds[:count], key="tune_run_text", ends=_ends(trace)
    )
    if not trace.odds:
        st.caption(_why_no_odds(trace))


def _why_no_odds(trace: Trace) -> str:
    if not trace.config.draft_method.needs_draft:
        return "The text is not scored, because the run used no draft model. Only rounds are shown."
    return "The text was not scored when this run was kept. Only rounds are shown."


def _ends(trace: Trace) -> dict[int, str]:
    """Map the position of each round's extra token to its kind, "recovered" or "bonus"."""
    found, count = dict[int, str](), 0
    for entry in trace.rounds:
        count += len(entry.emitted)
        if entry.extra is not None:
            found[count - 1] = entry.extra.kind
    return found


def _show_definitions(trace: Trace) -> None:
    st.markdown("#### Figures as other engines define them")
    st.caption(as_text(HOW_ENGINES_DIFFER))
    found = engine_figures(trace)
    engine = st.segmented_control(
        "Engine", list(dict.fromkeys(each.engine for each in found)),
        default=found[0].engine, key="tune_figures_of", label_visibility="collapsed",
        required=True, format_func=as_text,
    )  # fmt: skip
    own = [each for each in found if each.engine == engine]
    frame = pd.DataFrame.from_dict(
        {
            "figure": [as_text(each.name) for each in own],
            "value": [as_text(_value(each)) for each in own],
            "definition": [as_text(each.definition) for each in own],
        }
    )
    with st.container(key="tune_definitions"):
        st.table(frame, border="horizontal", hide_index=True)


def _value(figure: EngineFigure) -> str:
    value = figure.value
    if value is None:
        return UNKNOWN
    return " ".join(map(_number, value)) if isinstance(value, tuple) else _number(value)


def _number(value: float) -> str:
    """Format a count (int) without decimals, and a rate (float) always with decimals."""
    return str(value) if isinstance(value, int) else PROBABILITY.bare(value)


# The ledger


def show_ledger() -> None:
    rows = the_library().find(Query(limit=_LEDGER))
    points = [
        LedgerPoint(
            label=_run_title(each), expected=each.summary.speedup_expected,
            observed=each.summary.speedup, low=each.summary.speedup_low,
            high=each.summary.speedup_high,
        )
        for each in rows
        if each.summary.speedup_expected is not None and each.summary.speedup is not None
    ]  # fmt: skip
    if not points:
        st.info(
            "No kept run has both an expected and an observed speedup yet. A timed run stores "
            "both if the step costs are known and the draft drafts one sequence of candidates per "
            "round, without branches."
        )
        return
    st.markdown(
        f"**{as_text(ledger_sentence([(each.expected, each.observed) for each in points]))}**"
    )
    show_chart(
        ledger_chart(points),
        "Each point is a kept run. The vertical axis is the observed speedup, with an interval "
        "that covers the timing. The horizontal axis is the speedup expected from step costs and "
        "acceptance along the run's tokens. On the line, both speedups are equal.",
        "measured", key="tune_ledger", alt="Expected against observed speedup of all kept runs",
    )  # fmt: skip

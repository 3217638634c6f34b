"""The table of kept runs: search, filters, pages of rows, and the choice of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from specviz.access.roles import Action
from specviz.figures.body_words import WITHOUT_BODY, shown_bodies_title
from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.speedup_words import shown_speedup
from specviz.figures.symbols import SYMBOLS
from specviz.record.numbers import UNKNOWN
from specviz.record.pairs import pair_title
from specviz.store import Facets, Query, RunRow, RunSummary, SortKey
from specviz.ui.session.person import may

_Value = TypeVar("_Value", str, int, float)
PAGE_ROWS = 50
COMPARISON = "comparison"  # query parameter: the key of a comparison
CUSTOM = "custom"
_PAGE, _ASKED, _CHOSEN = "runs page", "runs asked", "runs chosen"
_OF_COMPARISONS = "runs_of_comparisons"
_ROW_PIXELS, _VISIBLE_ROWS = 35, 20
# Catalogue ids and column widths.
FIGURES = {"alpha_observed": 95, "tau": 50, "tokens_per_second": 80, "speedup_observed": 145}
ACCEPTED = "Accepted"
_SPEEDUP = "speedup_observed"  # a text column, because it includes the interval
_SORTS: dict[str, tuple[SortKey, bool]] = {
    "Newest first": ("created", True),
    "Oldest first": ("created", False),
    "Fastest (tokens/s)": ("tokens_per_second", True),
    "Greatest speedup": ("speedup", True),
    "Least speedup": ("speedup", False),
    "Highest α observed": ("alpha_observed", True),
    "Highest τ": ("tau", True),
    "Longest": ("tokens", True),
    "γ": ("gamma", False),
    "Temperature": ("temperature", False),
    "Name": ("name", False),
    "Pair": ("pair", False),
    "Kind": ("kind", False),
}
_SORT_HELP = "; ".join(
    f"{each.sign} is the {each.name}"
    for each in map(SYMBOLS.__getitem__, ("alpha", "tau", "gamma"))
)
_FILTERS = {
    "pairs": "Pair",
    "kinds": "Kind of prompt",
    "tags": "Tags (a run must have all)",
    "rules": "Rule",
    "drafters": "Drafter",
    "bodies": "Simulated size",
    "finishes": "Finish reason",
    "gammas": "γ (candidates per round)",
    "temperatures": "Temperature",
    "engines": "Engine",
    "persons": "Person",
}
OUR_OWN = "specviz"
OWNER = "owner"


def ask(facets: Facets) -> Query:
    """Draw the search box, the order and the filters; return the query that they describe."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="runs_ask"):
        search = st.text_input(
            "Search", key="runs_search", bind="query-params", max_chars=200, width=320,
            placeholder="name, prompt, text, tag or note",
        )  # fmt: skip
        order = st.selectbox(
            "Order", list(_SORTS), key="runs_order", bind="query-params", width=190,
            help=f"{_SORT_HELP}.",
        )  # fmt: skip
        with st.popover("Filter", key="runs_filter"):
            st.caption("A filter is hidden if all runs have the same value.")
            filters = _filters(facets)
        comparison = st.query_params.get(COMPARISON)
        of_comparisons = st.toggle(
            "Runs of comparisons", key=_OF_COMPARISONS, bind="query-params", width="content",
            disabled=comparison is not None,
            help="Also lists the runs of comparisons. The page *Compare* lists them under *Kept*.",
        )  # fmt: skip
        if on := [_FILTERS[name].lower() for name, picked in filters.items() if picked]:
            st.caption(f"Filtered by {', '.join(on)}", width="content")
    if comparison is not None:
        _show_comparison(comparison)
    key, descending = _SORTS[order]
    return Query(
        search=search or "", sort=key, descending=descending, comparison=comparison,
        of_comparisons=of_comparisons or comparison is not None, **filters,
    )  # fmt: skip


def _show_comparison(key: str) -> None:
    """Say that only one comparison's runs are listed; link to its results and to all runs."""
    with st.container(horizontal=True, vertical_alignment="center", key="runs_comparison"):
        st.caption("Runs of one comparison.", width="content")
        link = {"compare_tab": "Kept", "kept": key}
        if may(Action.MEASURE):
            st.page_link("pages/compare.py", label="Its results", query_params=link)
        st.button("All runs", key="runs_all", type="tertiary", on_click=_ask_for_all)


def _ask_for_all() -> None:
    st.query_params.pop(COMPARISON, None)


def _filters(facets: Facets) -> dict[str, Any]:
    engines = _pick("engines", [OUR_OWN if e is None else e for e in facets.engines])
    kinds = _pick("kinds", [CUSTOM if k is None else k for k in facets.kinds])
    return {
        "pairs": _pick("pairs", facets.pairs, show=pair_title),
        "kinds": tuple(None if kind == CUSTOM else kind for kind in kinds),
        "tags": _pick("tags", facets.tags, fewest=1),
        "rules": _pick("rules", facets.rules),
        "drafters": _pick("drafters", facets.drafters),
        "bodies": _pick("bodies", facets.bodies, show=shown_bodies_title),
        "finishes": _pick("finishes", facets.finishes),
        "gammas": _pick("gammas", facets.gammas),
        "temperatures": _pick("temperatures", facets.temperatures),
        "engines": tuple(None if engine == OUR_OWN else engine for engine in engines),
        "persons": _pick("persons", facets.persons, show=_person_name),
    }


def _pick(
    name: str, options: Sequence[_Value], fewest: int = 2, show: Callable[[Any], str] = str
) -> tuple[_Value, ...]:
    """Draw a filter if it has at least ``fewest`` options; return the picked values.

    A picked value stays an option even if no run has this value any more, so that the user can
    remove it.
    """
    key = f"runs_{name}"
    kept = [each for each in st.session_state.get(key, []) if each not in options]
    if len(options) + len(kept) < fewest:
        return ()
    return tuple(
        st.multiselect(
            _FILTERS[name], [*options, *kept], key=key, placeholder="all", format_func=show
        )
    )  # fmt: skip


def page_of(query: Query, total: int) -> Query:
    """Return the query limited to the rows of the open table page. A new query opens page 1."""
    if st.session_state.get(_ASKED) != query:
        st.session_state[_ASKED] = query
        st.session_state[_PAGE] = 1
    page = st.session_state[_PAGE] = min(st.session_state[_PAGE], _pages(total))
    return replace(query, offset=(page - 1) * PAGE_ROWS, limit=PAGE_ROWS)


def show_paging(total: int, hidden: int) -> None:
    """Draw the number of runs. With several pages, also draw the row range and paging buttons.

    ``hidden`` is the number of runs that are not listed because a comparison made them.
    """
    page, pages = st.session_state[_PAGE], _pages(total)
    rest = f", hidden runs of comparisons: {hidden:,}" if hidden else ""
    if pages == 1:
        st.caption(f"{total:,} run{'' if total == 1 else 's'}{rest}", width="content")
        return
    first, last = (page - 1) * PAGE_ROWS + 1, min(page * PAGE_ROWS, total)
    st.button(
        "←", key="runs_back", disabled=page == 1, on_click=_turn, args=(-1,), help="Previous page"
    )
    st.caption(f"{first:,}–{last:,} of {total:,} runs{rest}", width="content")
    st.button(
        "→", key="runs_on", disabled=page == pages, on_click=_turn, args=(1,), help="Next page"
    )


def _pages(total: int) -> int:
    return max(1, -(-total // PAGE_ROWS))


def _turn(by: int) -> None:
    st.session_state[_PAGE] += by


@dataclass(slots=True)
class _Chosen:
    """The chosen runs of a table.

    ``rows`` identifies the rows that the table shows. ``first`` contains the indices of the rows
    that are already chosen when the table is drawn for the first time.
    """

    query: Query | None = None
    rows: str = ""
    ids: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=list)


def show_table(rows: Sequence[RunRow], query: Query, *, with_person: bool = False) -> list[RunRow]:
    """Draw the rows of a query and return the chosen rows.

    The widget key depends on the rows, because Streamlit stores a choice by row number. If a run is
    added or deleted, the chosen runs stay chosen. After a change of the query, no run is chosen.
    """
    ids = hashlib.sha256("".join(row.id for row in rows).encode()).hexdigest()[:12]
    kept: _Chosen = st.session_state.setdefault(_CHOSEN, _Chosen())
    if kept.query != query:
        kept.query, kept.ids = query, []
    if kept.rows != ids:
        kept.rows = ids
        kept.first = [place for place, row in enumerate(rows) if row.id in kept.ids]
    with st.container(key="runs_table"):
        answer: Any = st.dataframe(
            pd.DataFrame.from_records([_cells(row, with_person=with_person) for row in rows]),
            key=f"runs_table_{ids}",
            height=_ROW_PIXELS * (min(len(rows), _VISIBLE_ROWS) + 1) + 3,
            hide_index=True,
            column_config=_columns(),
            on_select="rerun",
            placeholder=UNKNOWN,
            selection_mode="multi-row",
            selection_default={"selection": {"rows": kept.first}},
            alt="The kept runs, one per row",
        )
    if (below := len(rows) - _VISIBLE_ROWS) > 0:
        st.caption(f"Scroll the table for {below} more rows.")
    chosen = [rows[place] for place in answer["selection"]["rows"] if place < len(rows)]
    kept.ids = [row.id for row in chosen]
    return chosen


def show_row(summary: RunSummary) -> None:
    """Draw a table with a single row, for a run that is not in the library."""
    row = RunRow(
        id="", name="", note="", tags=(), summary=summary, comparison=None, job=None,
        memory_bytes=None, trace_bytes=0,
    )  # fmt: skip
    st.dataframe(
        pd.DataFrame.from_records([_cells(row)]), key="runs_example", hide_index=True,
        column_config=_columns(), placeholder=UNKNOWN, alt="A recorded run",
    )  # fmt: skip


def title_of(row: RunRow) -> str:
    """Return the run's name, or else the beginning of its prompt."""
    return row.name or head_of(row)


def given_name(row: RunRow) -> str:
    """Return the run's name; empty if it is only the beginning of the prompt."""
    return row.name if row.name != head_of(row) else ""


def head_of(row: RunRow) -> str:
    """Return the beginning of the prompt, on one line."""
    head = " ".join(row.summary.prompt_head.split())
    return head if len(head) <= 60 else f"{head[:59]}…"


def _what_differs(row: RunRow) -> str:
    """Return what distinguishes a run: fork point, weights, simulated size, name or settings.

    The settings are shown only for a run without a name. The most important part comes first,
    because a narrow column cuts off the end.
    """
    name, summary = given_name(row), row.summary
    parts = [f"forked at {summary.fork}"] if summary.fork else []
    parts += [summary.weights] if summary.weights else []
    if summary.bodies not in (None, WITHOUT_BODY):
        parts.append(shown_bodies_title(summary.bodies))
    return ", ".join([*parts, name or _settings(summary)])


def _settings(summary: RunSummary) -> str:
    parts = [summary.engine] if summary.engine else []
    parts += [] if summary.gamma is None else [f"γ {summary.gamma}"]
    parts += [f"T {summary.temperature:g}"]
    parts += [summary.drafter.replace("-", " ")] if summary.drafter not in (None, "model") else []
    parts += [summary.rule] if summary.rule not in (None, "lossless") else []
    parts += [] if summary.seed is None else [f"seed {summary.seed}"]
    return ", ".join(parts)


def row_label(row: RunRow) -> str:
    """Return a label of the run: what distinguishes it, and its engine."""
    engine, text = row.summary.engine, _what_differs(row)
    if given_name(row):
        return f"{text} · {engine or OUR_OWN}"
    return text if engine else f"{OUR_OWN}, {text}"


def _figure_head(name: str) -> str:
    return titled(CATALOGUE[name].head)


def _person_name(key: str) -> str:
    return key or OWNER


def _cells(row: RunRow, *, with_person: bool = False) -> dict[str, object]:
    summary = row.summary
    return {
        "Run": _what_differs(row),
        **({"Person": _person_name(row.person)} if with_person else {}),
        "γ": summary.gamma,
        "T": summary.temperature,
        _figure_head("alpha_observed"): summary.alpha_observed,
        _figure_head("tau"): summary.tau,
        ACCEPTED: _accepted(summary),
        _figure_head("tokens_per_second"): summary.tokens_per_second,
        _figure_head(_SPEEDUP): _speedup(summary),
        "When (UTC)": pd.to_datetime(summary.created, errors="coerce", utc=True),
        "Tags": list(row.tags),
        "Prompt": head_of(row),
        "Tokens": summary.tokens,
        "Pair": " · ".join(each for each in (pair_title(summary.pair), summary.weights) if each),
        "Engine": summary.engine or OUR_OWN,
        "Simulated size": shown_bodies_title(summary.bodies or ""),
        "Kind": "" if summary.engine else summary.kind or CUSTOM,
        "Drafter": summary.drafter,
        "Rule": summary.rule,
        "Finish reason": summary.finish,
    }


def _accepted(summary: RunSummary) -> list[int] | None:
    """Return how many candidates were accepted in each of the first rounds; None if unknown."""
    counts = (summary.accepted or "").split(",")
    return [int(each) for each in counts] if all(map(str.isdecimal, counts)) else None


def _speedup(summary: RunSummary) -> str:
    """Return the speedup with its interval, or the interval alone if it is wide.

    A speedup without an interval gets a "?". Without a speedup, return "stopped" for a stopped run,
    else ``UNKNOWN``.
    """
    low, high = summary.speedup_low, summary.speedup_high
    if summary.speedup is None:
        return "stopped" if summary.finish == "stopped" else UNKNOWN
    if low is None or high is None:
        return f"{shown_speedup(summary.speedup, low, high)} ?"
    return shown_speedup(summary.speedup, low, high)


def _columns() -> dict[str, Any]:
    column, speedup = st.column_config, CATALOGUE[_SPEEDUP]
    return {
        "Run": column.TextColumn(width=340, pinned=True),
        "Person": column.TextColumn(help="Who made the run", width=130),
        "γ": column.NumberColumn(help="Candidates drafted per round", width=45),
        "T": column.NumberColumn(help="Temperature; 0 is greedy", format="%g", width=50),
        **{
            _figure_head(name): column.NumberColumn(
                help=f"{titled(CATALOGUE[name].label)}: {CATALOGUE[name].definition}.",
                format=CATALOGUE[name].quantity.column,
                width=width,
            )
            for name, width in FIGURES.items()
            if name != _SPEEDUP
        },
        ACCEPTED: column.BarChartColumn(
            help="Accepted candidates of the first rounds, one bar per round. Empty for runs that "
            "did not record them.",
            width=110,
            y_min=0,
        ),
        _figure_head(_SPEEDUP): column.TextColumn(
            help=f"{titled(speedup.label)}: {speedup.definition}, with its 95 % interval. A wide "
            "interval is shown without the value. A question mark marks an older run without an "
            "interval.",
            width=FIGURES[_SPEEDUP],
        ),
        "When (UTC)": column.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone="UTC", width=130),
        "Tags": column.ListColumn(width=95),
        "Prompt": column.TextColumn(help="The beginning of the prompt", width=240),
        "Tokens": column.NumberColumn(width=65),
        "Pair": column.TextColumn(
            help="The pair of draft and target. For runs of other engines: the model.", width=95
        ),
        "Engine": column.TextColumn(width=95),
        "Simulated size": column.TextColumn(
            help="The model sizes whose step cost the run simulated. Empty for older runs, which "
            "did not record them.",
            width=115,
        ),
        "Kind": column.TextColumn(width=75),
    }

"""The runs that a section is about: of a comparison that the library keeps, or those recorded with
the program. And the way to make more: lanes for Compare, and the same as a command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st

from specviz import ASSETS
from specviz.comparison import LaneRun, settings_of
from specviz.comparison.kept_runs import kept_comparison
from specviz.comparison.plan import Lane, Plan, plan_from_json
from specviz.errors import SpecvizError
from specviz.figures.recorded_methods import RecordedWays, Recording
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.store import ComparisonRow
from specviz.store.dataclass_json import fit_to_type
from specviz.ui.compare.kept import KEPT_LINK, TAB
from specviz.ui.compare.lanes import TAKEN, lane_text
from specviz.ui.runs.table import COMPARISON
from specviz.ui.session.run_saving import the_library
from specviz.ui.watch.library_run import RUN_LINK
from specviz.ui.widgets.plain_text import as_text, show_error

RECORDED = "recorded"
_FOUND = "ways found"  # session state: by the key of a section, what its runs say
_OF_A_LANE = 12  # runs that are linked one by one

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLink:
    lane: str
    name: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ways(Generic[T]):
    """What runs say, and which they are. ``row`` is None for the recorded ones."""

    found: T
    about: str
    row: ComparisonRow | None = None
    links: tuple[RunLink, ...] = ()


@st.cache_resource(show_spinner=False)
def recorded_methods() -> RecordedWays:
    text = (ASSETS / "recorded_ways.json").read_text("utf-8")
    return fit_to_type(json.loads(text), RecordedWays)


def recorded_about(made: Recording) -> str:
    return f"Recorded with the program on {made.created[:10]}: {made.runs}; {made.machine}."


def choose_methods(
    section: str,
    fits: Callable[[Sequence[RunConfig]], bool],
    find: Callable[[Sequence[Trace]], T | None],
    recorded: Ways[T],
) -> Ways[T]:
    """The newest kept comparison whose lanes fit, unless another is chosen. Runs that turn out to
    say nothing leave the recorded ones."""
    try:
        kept = _fitting(fits)
    except SpecvizError as error:
        show_error(error)
        return recorded
    if not kept:
        return recorded
    key = st.selectbox(
        "Runs", [*kept, RECORDED], key=f"{section}_runs", width=520,
        format_func=lambda each: _named(kept.get(each)),
    )  # fmt: skip
    if key not in kept:
        return recorded
    try:
        return _found(section, kept[key], find) or recorded
    except SpecvizError as error:
        show_error(error)
        return recorded


def _fitting(fits: Callable[[Sequence[RunConfig]], bool]) -> dict[str, ComparisonRow]:
    rows = [row for row in the_library().comparisons() if row.num_runs]
    return {row.key: row for row in rows if fits([lane.config for lane in _lanes(row)])}


def _lanes(row: ComparisonRow) -> tuple[Lane, ...]:
    try:
        return plan_from_json(row.plan_json).lanes
    except SpecvizError:
        return ()  # Compare says what is wrong with it


def _named(row: ComparisonRow | None) -> str:
    if row is None:
        return "recorded with the program"
    plural = "" if row.num_runs == 1 else "s"
    return f"{row.title or 'a comparison'} · {row.created[:10]} · {row.num_runs} run{plural}"


def _found(
    section: str, row: ComparisonRow, find: Callable[[Sequence[Trace]], T | None]
) -> Ways[T] | None:
    """Remembered until the comparison has other runs: opening them takes a while."""
    known: dict[str, tuple[ComparisonRow, Ways[T] | None]] = st.session_state.setdefault(_FOUND, {})
    if section not in known or known[section][0] != row:
        with st.spinner("Opening its runs"):
            plan, runs = kept_comparison(the_library(), row.key)
            found = find([run.trace for run in runs])
        about = f"Kept on {row.created[:10]}: {settings_of(plan)}"
        ways = Ways(found=found, about=about, row=row, links=_links(plan, row.key, runs))
        known[section] = row, None if ways.found is None else ways  # pyright: ignore[reportArgumentType]
    return known[section][1]


def _links(plan: Plan, key: str, runs: Sequence[LaneRun]) -> tuple[RunLink, ...]:
    ids = the_library().comparison_jobs(key)
    return tuple(
        RunLink(
            lane=plan.labels[run.job.lane],
            name=_run_name(plan, run),
            id=ids[run.job.key],
        )
        for run in runs
        if run.job.key in ids
    )


def _run_name(plan: Plan, run: LaneRun) -> str:
    kind, seed = plan.items[run.job.item].kind, f"seed {run.trace.config.seed}"
    return f"{kind}, {seed}" if kind else seed


def show_about(ways: Ways[T], lanes: Mapping[str, RunConfig], section: str, body: str) -> None:
    """Which runs these are, the way to each, and how to make such runs."""
    st.caption(f":green-badge[measured] {as_text(ways.about)}")
    with st.container(horizontal=True, vertical_alignment="center", key=f"{section}_ways"):
        if ways.row is not None:
            link = {TAB: "Kept", KEPT_LINK: ways.row.key}
            st.page_link("pages/compare.py", label="Their comparison", query_params=link)
            st.page_link(
                "pages/runs.py", label="All of them", query_params={COMPARISON: ways.row.key}
            )
        spec = PairSpec(target_body=body) if body else PairSpec()
        texts = [lane_text(Lane(spec=spec, config=config, name=n)) for n, config in lanes.items()]
        if st.button("Set these lanes in Compare", key=f"{section}_make"):
            st.session_state[TAKEN] = texts
            st.switch_page("pages/compare.py", query_params={"lane": texts})
    with st.expander("The runs, and the command", key=f"{section}_list"):
        _list_runs(ways.links)
        st.markdown("The same lanes on the command line; what is made there is kept, too:")
        st.code(_command(texts), language="bash", wrap_lines=True)


def _list_runs(links: Sequence[RunLink]) -> None:
    if not links:
        st.markdown("The recorded runs are kept as figures, so there is none of them to open.")
    for lane in dict.fromkeys(each.lane for each in links):
        own = [each for each in links if each.lane == lane]
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"{as_text(lane)}:", width="content")
            for each in own[:_OF_A_LANE]:
                st.page_link(
                    "pages/watch.py", label=as_text(each.name), query_params={RUN_LINK: each.id}
                )
            if len(own) > _OF_A_LANE:
                st.caption(f"and {len(own) - _OF_A_LANE} more", width="content")


def _command(lanes: Sequence[str]) -> str:
    given = " \\\n  ".join(f'--lane "{each}"' for each in lanes)
    return f"python -m specviz compare --presets --repeats 1 --ignore-eos \\\n  {given}"

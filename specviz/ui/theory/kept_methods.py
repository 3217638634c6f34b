"""The runs that a section of a theory page analyses.

The user chooses the runs of a stored comparison, or recorded runs shipped with specviz. To make
more such runs, the section offers a command, and lanes for the page Compare. A lane is one of the
settings that Compare runs side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import streamlit as st

from specviz import ASSETS
from specviz.access.roles import Action
from specviz.comparison import LaneRun, settings_of
from specviz.comparison.kept_runs import kept_comparison
from specviz.comparison.plan import Lane, Plan, plan_from_json
from specviz.errors import SpecvizError
from specviz.figures.recorded_methods import RecordedMethods, Recording
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.store import ComparisonRow
from specviz.store.dataclass_json import from_json
from specviz.ui.compare.kept import KEPT_LINK, TAB
from specviz.ui.compare.lanes import LANES_HANDOVER, lane_text
from specviz.ui.runs.table import COMPARISON
from specviz.ui.session.person import may
from specviz.ui.session.run_saving import has_library, the_library
from specviz.ui.watch.library_run import RUN_LINK
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.values import Value

RECORDED = "recorded"
_FOUND = "method runs found"  # session state: results by section key
_MAX_LINKS = 12  # runs linked individually, per lane

T = TypeVar("T")
Found_co = TypeVar("Found_co", covariant=True)


class ShippedFindings(Protocol[Found_co]):
    @property
    def found(self) -> Found_co: ...
    @property
    def made(self) -> Recording: ...


class RunLink(Value):
    lane: str
    name: str
    id: str


class MethodRuns(Value, Generic[T], eq=False):
    """What a section computed from a set of runs (``found``), and a description of the runs.

    ``about`` is a sentence about the runs, and ``links`` open them. ``row`` is the stored
    comparison, or None for the runs shipped with specviz.
    """

    found: T
    about: str
    row: ComparisonRow | None = None
    links: tuple[RunLink, ...] = ()


@st.cache_resource(show_spinner=False)
def recorded_methods() -> RecordedMethods:
    return from_json((ASSETS / "recorded_ways.json").read_text("utf-8"), RecordedMethods)


def choose_methods(
    section: str,
    fits: Callable[[Sequence[RunConfig]], bool],
    find: Callable[[Sequence[Trace]], T | None],
    shipped: ShippedFindings[T],
) -> MethodRuns[T]:
    """Let the user choose a stored comparison or the shipped runs; return the results of the runs.

    The list begins with the newest comparison and ends with the shipped runs. If no comparison
    fits, or if ``find`` returns None, return the results of the shipped runs.

    Args:
        section: Prefix of the widget keys.
        fits: Return whether the section can analyse a comparison of these settings.
        find: Compute the results from the runs, or return None if these runs have no results.
        shipped: The results of the recorded runs that are shipped with specviz.
    """
    made = shipped.made
    about = f"Shipped with specviz, recorded on {made.created[:10]}: {made.runs}; {made.machine}."
    recorded = MethodRuns(found=shipped.found, about=about)
    try:
        kept = _fitting(fits)
    except SpecvizError as error:
        show_error(error)
        return recorded
    if not kept:
        return recorded
    key = st.selectbox(
        "Runs", [*kept, RECORDED], key=f"{section}_runs", width=520,
        format_func=lambda each: _run_set_title(kept.get(each)),
    )  # fmt: skip
    if key not in kept:
        return recorded
    try:
        return _found(section, kept[key], find) or recorded
    except SpecvizError as error:
        show_error(error)
        return recorded


def _fitting(fits: Callable[[Sequence[RunConfig]], bool]) -> dict[str, ComparisonRow]:
    if not has_library():
        return {}
    rows = [row for row in the_library().comparisons() if row.num_runs]
    return {row.key: row for row in rows if fits([lane.config for lane in _lanes(row)])}


def _lanes(row: ComparisonRow) -> tuple[Lane, ...]:
    try:
        return plan_from_json(row.plan_json).lanes
    except SpecvizError:
        return ()  # Compare shows the error


def _run_set_title(row: ComparisonRow | None) -> str:
    if row is None:
        return "shipped with specviz"
    plural = "" if row.num_runs == 1 else "s"
    return f"{row.title or 'a comparison'} · {row.created[:10]} · {row.num_runs} run{plural}"


def _found(
    section: str, row: ComparisonRow, find: Callable[[Sequence[Trace]], T | None]
) -> MethodRuns[T] | None:
    """Return the results of a comparison, cached until the comparison's row changes."""
    known: dict[str, tuple[ComparisonRow, MethodRuns[T] | None]] = st.session_state.setdefault(
        _FOUND, {}
    )
    if section not in known or known[section][0] != row:
        with st.spinner("Opening the runs"):
            plan, runs = kept_comparison(the_library(), row.key)
            found = find([run.trace for run in runs])
        about = f"Kept on {row.created[:10]}: {settings_of(plan)}"
        links = _links(plan, row.key, runs)
        known[section] = (
            row,
            None if found is None else MethodRuns(found=found, about=about, row=row, links=links),
        )
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


def show_about(
    runs: MethodRuns[T], lanes: Mapping[str, RunConfig], section: str, body: str
) -> None:
    """Show a description of the runs, links to the runs, and two ways to make more such runs.

    Args:
        lanes: Settings to compare, by name, for the page Compare and for the command.
        body: Simulated size of the target in the new runs, or "" for its real size.
    """
    st.caption(f":green-badge[measured] {as_text(runs.about)}")
    with st.container(horizontal=True, vertical_alignment="center", key=f"{section}_ways"):
        if runs.row is not None:
            link = {TAB: "Kept", KEPT_LINK: runs.row.key}
            if may(Action.MEASURE):
                st.page_link("pages/compare.py", label="Open the comparison", query_params=link)
            st.page_link(
                "pages/runs.py", label="List its runs", query_params={COMPARISON: runs.row.key}
            )
        spec = PairSpec(target_body=body) if body else PairSpec()
        texts = [lane_text(Lane(spec=spec, config=config, name=n)) for n, config in lanes.items()]
        if may(Action.MEASURE) and st.button("Use these lanes in Compare", key=f"{section}_make"):
            st.session_state[LANES_HANDOVER] = texts
            st.switch_page("pages/compare.py", query_params={"lane": texts})
    with st.expander("The runs, and the command", key=f"{section}_list"):
        _list_runs(runs.links)
        st.markdown("This command makes and stores runs with these lanes:")
        st.code(_command(texts), language="bash", wrap_lines=True)


def _list_runs(links: Sequence[RunLink]) -> None:
    if not links:
        st.markdown(
            "Only the results of the recorded runs are stored, so the runs cannot be opened."
        )
    for lane in dict.fromkeys(each.lane for each in links):
        own = [each for each in links if each.lane == lane]
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"{as_text(lane)}:", width="content")
            for each in own[:_MAX_LINKS]:
                st.page_link(
                    "pages/watch.py", label=as_text(each.name), query_params={RUN_LINK: each.id}
                )
            if len(own) > _MAX_LINKS:
                st.caption(f"and {len(own) - _MAX_LINKS} more", width="content")


def _command(lanes: Sequence[str]) -> str:
    given = " \\\n  ".join(f'--lane "{each}"' for each in lanes)
    return f"python -m specviz compare --presets --repeats 1 --ignore-eos \\\n  {given}"

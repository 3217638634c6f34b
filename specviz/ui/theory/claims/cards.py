"""A claim as a card: quote, verdict, numbers, the setting where the verdict changes, and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from specviz import ROOT
from specviz.access.roles import Action
from specviz.measure.background_job import RunsJob
from specviz.theory.claims import Claim, ClaimVerdict, Figure, RunName, Source, claims
from specviz.ui.session.background_jobs import stop
from specviz.ui.session.person import may
from specviz.ui.theory.claims.evidence import Evidence
from specviz.ui.theory.claims.recorded_tasks import recorded_sentence, task_table
from specviz.ui.theory.claims.runs import ClaimRuns, refusal_on
from specviz.ui.theory.kept_methods import recorded_methods
from specviz.ui.widgets.page_parts import show_formula, show_heading, show_letters
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.ui.widgets.symbols import show_symbols

Start = Callable[[RunName, str], None]  # arguments: the runs, and the id of the card's claim

VERDICTS: dict[ClaimVerdict, str] = {
    "Holds": ":green-badge[✓ Holds]",
    "Holds within limits": ":orange-badge[◐ Holds within limits]",
    "Does not hold": ":red-badge[✕ Does not hold]",
}
_TICK = 0.5  # seconds
_PAGES = ROOT / "pages"


def show_claims_heading() -> None:
    show_heading(
        "Claims, checked",
        "This page quotes sentences about speculative decoding from a guide, an overview, a "
        "README, a manual and a paper. It checks each sentence and shows the setting at which the "
        "sentence becomes true or false.",
    )


def show_chosen_claims(runs: ClaimRuns, start: Start, running: frozenset[str]) -> None:
    """Draw the filters and the cards of the claims that pass; ``running`` as in `choose_claims`."""
    claims = all_claims()
    st.markdown(f"{len(claims)} sentences: {tally(claims)}")
    show_symbols("alpha", "gamma", "tau", "c", "v")
    shown = choose_claims(claims, running)
    if shown:
        show_cards(shown, runs, start)
    else:
        st.info("No claim has this source and this verdict. Remove one of the two filters.")
    st.caption(
        "A verdict says whether the sentence is true in all, some or none of the tested cases."
    )
    show_letters()


@st.cache_data(show_spinner=False)
def all_claims() -> tuple[Claim, ...]:
    """Return the claims that the page judges, cached because they depend on no setting."""
    return claims()


def tally(shown: Sequence[Claim]) -> str:
    """Return the number of claims per verdict, as one line of text."""
    judged = [each.verdict for each in shown]
    found = ((badge, judged.count(verdict)) for verdict, badge in VERDICTS.items())
    return " ".join(f"{badge} {count}" for badge, count in found if count)


def choose_claims(every: Sequence[Claim], running: frozenset[str]) -> list[Claim]:
    """Draw the filters by source and verdict; return the claims that pass.

    A claim whose id is in ``running``, because its runs are unfinished, always passes.
    """
    sources: list[Source] = list(dict.fromkeys(each.source for each in every))
    verdicts: list[ClaimVerdict] = list(VERDICTS)
    with st.container(horizontal=True):
        chosen = st.pills(
            "Source", sources, selection_mode="multi", key="claims_source", bind="query-params"
        )
        judged = st.pills(
            "Verdict", verdicts, selection_mode="multi", key="claims_verdict", bind="query-params"
        )
    return [
        each
        for each in every
        if each.id in running
        or ((not chosen or each.source in chosen) and (not judged or each.verdict in judged))
    ]


def show_cards(shown: Sequence[Claim], runs: ClaimRuns, start: Start) -> None:
    """Draw the cards in two columns; each card goes to the column that is shorter so far."""
    columns = st.columns(2)
    heights = [0, 0]
    for each in shown:
        side = heights.index(min(heights))
        heights[side] += 400 + len(each.quote) + len(each.finding) + len(each.flip)
        heights[side] += 250 if each.latex else 0
        with columns[side]:
            _show_card(each, runs, start)


def _show_card(claim: Claim, runs: ClaimRuns, start: Start) -> None:
    with st.container(border=True, key=f"claim_{claim.id}", gap="small"):
        basis = ":blue-badge[exact]" if claim.basis == "exact" else ":gray-badge[reported]"
        st.markdown(f"{VERDICTS[claim.verdict]} :small[{as_text(claim.source)}] {basis}")
        st.markdown(f"**“{as_text(claim.quote)}”**")
        _show_figures(claim.figures)
        st.markdown(as_text(claim.finding))
        if claim.latex:
            show_formula(claim.latex, dict(claim.symbols))
        st.caption(f"**Where the verdict changes:** {as_text(claim.flip)}")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.page_link(
                _PAGES / f"{claim.chart.page}.py",
                label=f"{as_text(claim.chart.label)} →",
                query_params=claim.chart.query,
            )
            if claim.run is not None:
                show_button("Test this claim on the pair", claim.run, claim.id, runs, start)
        if claim.run is not None:
            show_state(claim.run, claim.id, runs)
            _show_recorded(claim.run)


def _show_recorded(run: RunName) -> None:
    recorded = recorded_methods().tasks
    if (sentence := recorded_sentence(run, recorded.found)) is None:
        return
    made = recorded.made
    st.markdown(f":green-badge[recorded] :small[{as_text(made.runs)}]")
    st.markdown(as_text(sentence))
    with st.expander("Every task"):
        st.markdown(task_table(run, recorded.found))
        st.caption("α with its 95 % interval over the prompts; tokens per round with their range.")
    st.caption(as_text(f"Recorded on {made.created[:10]}; {made.machine}."))


def _show_figures(figures: Sequence[Figure]) -> None:
    with st.container(horizontal=True, gap="medium"):
        for each in figures:
            text, label = as_text(each.text), as_text(each.label)
            st.markdown(f"**{text}**  \n:small[{label}]", width="content")


def show_button(label: str, run: RunName, card: str, runs: ClaimRuns, start: Start) -> None:
    """Draw the button that starts a claim's runs, or repeats them after results or an error.

    Draw nothing for a person who may not start them.
    """
    if not may(Action.MEASURE):
        return
    st.button(
        "Run again" if runs.evidence(run) or runs.failure(run) else label,
        key=f"claims_run_{card}",
        disabled=runs.going(run) is not None,
        on_click=start,
        args=(run, card),
    )


def show_state(run: RunName, card: str, runs: ClaimRuns) -> None:
    """Show the progress, the error or the results of the runs.

    If another card started the runs, this card shows no progress and collapses the results.
    """
    if (refusal := refusal_on(card)) is not None:
        show_error(refusal)
    own = runs.started_by(run) in {None, card}
    if (job := runs.going(run)) is not None:
        if own:
            _show_job_progress(job)
    elif (failure := runs.failure(run)) is not None:
        show_error(failure)
    elif (found := runs.evidence(run)) is not None:
        title = ":green-badge[measured] :small[in runs that another card started]"
        with st.container(gap="small") if own else st.expander(title):
            _show_evidence(found)


def _show_evidence(found: Evidence) -> None:
    st.markdown(f":green-badge[measured] :small[on {as_text(found.pair)}]")
    if found.figures:
        _show_figures(found.figures)
    st.markdown(as_text(found.sentence))


def _show_job_progress(job: RunsJob) -> None:
    @st.fragment(run_every=_TICK)
    def progress() -> None:
        if not job.going:
            st.rerun()  # ends the fragment's updates and draws the whole page
        done, planned = job.progress
        doing = f"run {min(done + 1, planned)} of {planned}, {job.doing}"
        st.progress(done / planned, text=f":small[{as_text(doing)}]")
        st.button("Stop", key=f"claims_stop_{job.id}", type="tertiary", on_click=stop, args=(job,))

    progress()

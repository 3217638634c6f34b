"""Stored runs of specviz and other engines side by side: a table, a race, and their caveats.

The runs were timed at different times, so no speedup is computed between runs. A metric that an
engine does not report is shown as a dash; a metric that no engine reports is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.server_figures import figures_of
from specviz.figures.speedup_words import shown_speedup
from specviz.figures.timing import timing_of
from specviz.player.replay import comparison_replay_html
from specviz.record.numbers import UNKNOWN
from specviz.record.pairs import pair_title
from specviz.record.server_run import AnyTrace, ServerTrace, dispatch
from specviz.record.trace import Trace
from specviz.servers.baseline import speedup_of

Row = tuple[str, tuple[str, ...]]  # a figure's name, and its value in every run

NO_SPEEDUP_BETWEEN = (
    "No speedup between these runs is computed: they were not timed in turn, and their machines "
    "and engines may differ."
)
PROMPTS_DIFFER = (
    "The prompts differ, so text, acceptance and speed would differ even with equal settings."
)
LEGEND = (
    "A dash means that the figure was not measured, or that the engine does not report it. For a "
    "specviz run, tokens/s are measured without the prefill; for another engine, from the first "
    "piece of text on. Each speedup compares a run with its own target alone."
)


def rows_beside(traces: Sequence[AnyTrace]) -> tuple[Row, ...]:
    """Return a table row for each metric that at least one run has."""
    rows = zip(_NAMES, zip(*map(_column, traces), strict=True), strict=True)
    return tuple((name, cells) for name, cells in rows if set(cells) != {UNKNOWN})


def distinct_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels; equal labels get numbers appended."""
    counts, seen = Counter(labels), Counter[str]()
    found: list[str] = []
    for label in labels:
        seen[label] += 1
        found.append(f"{label} ({seen[label]})" if counts[label] > 1 else label)
    return found


def sentences(traces: Sequence[AnyTrace]) -> tuple[str, ...]:
    """Return the notes to show above the runs: what cannot be compared, and why."""
    prompts = {each.facts.prompt or each.facts.prompt_ids for each in traces}
    return (NO_SPEEDUP_BETWEEN, PROMPTS_DIFFER) if len(prompts) > 1 else (NO_SPEEDUP_BETWEEN,)


def beside_html(labels: Sequence[str], traces: Sequence[AnyTrace]) -> str:
    """Return the table and the race as one HTML file."""
    first, *rest = sentences(traces)
    return comparison_replay_html(
        labels, traces, verdict=first, facts=[*rest, LEGEND], by_turns=False,
        table=[["", *labels], *([name, *cells] for name, cells in rows_beside(traces))],
    )  # fmt: skip


# A column

_FIGURES = ("alpha_observed", "draft_acceptance_rate", "tau", "tokens_per_second", "ttft_ms")
_NAMES = (
    "Engine", "Model", "Where", "Candidates per round, γ", "Temperature", "Tokens", "Rounds",
    *(titled(CATALOGUE[name].label) for name in _FIGURES), "Speedup over the target alone",
)  # fmt: skip


def _column(trace: AnyTrace) -> tuple[str, ...]:
    facts, found = trace.facts, figures_of(trace)
    return (
        facts.engine or "specviz",
        pair_title(facts.name),
        facts.place,
        UNKNOWN if facts.gamma is None else str(facts.gamma),
        f"{facts.temperature:g}",
        *(UNKNOWN if n is None else f"{n:,}" for n in (facts.num_tokens, found.num_rounds)),
        *(CATALOGUE[name].shown(found) for name in _FIGURES),
        dispatch(trace, _speedup_of_run, _speedup_of_answer),
    )


def _speedup_of_run(trace: Trace) -> str:
    timing = timing_of(trace.baseline, trace.rounds)
    return UNKNOWN if timing is None else shown_speedup(timing.speedup, timing.low, timing.high)


def _speedup_of_answer(trace: ServerTrace) -> str:
    found = speedup_of(trace.baseline)
    return UNKNOWN if found is None else shown_speedup(found.value, found.low, found.high)

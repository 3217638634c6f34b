"""Kept runs of our own and other engines side by side: a table, a race, and their caveats.

Each run was timed when it was made, so no speedup is computed between runs. A figure that an engine
does not report is a dash; a figure that none of them reports is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.metrics import Metrics
from specviz.figures.server_figures import reported_tokens, server_metrics
from specviz.figures.speedup_words import shown_speedup
from specviz.player.replay import comparison_replay_html
from specviz.record.numbers import UNKNOWN
from specviz.record.server_run import AnyTrace, ServerTrace
from specviz.record.trace import Trace
from specviz.servers.baseline import speedup_of

Row = tuple[str, tuple[str, ...]]  # a figure's name, and a cell of every run

NO_SPEEDUP_BETWEEN = (
    "These runs were not timed in turn, and their machines and engines may differ: no speedup "
    "between them is computed."
)
PROMPTS_DIFFER = "The prompts differ, so text, acceptance and speed differ for that reason, too."
LEGEND = (
    "A dash: not reported by that engine, or not measured. Tokens/s: of specviz, over whole "
    "rounds; of other engines, after the first piece, timed here. Each speedup, with its interval, "
    "is over the run's own target alone."
)


def rows_beside(traces: Sequence[AnyTrace], figures: Sequence[Metrics | None]) -> tuple[Row, ...]:
    """Return a row per figure; ``figures`` has None for an answer of another engine."""
    columns = [
        _of_answer(trace) if isinstance(trace, ServerTrace) else _of_run(trace, own)
        for trace, own in zip(traces, figures, strict=True)
    ]
    rows = zip(_NAMES, zip(*columns, strict=True), strict=True)
    return tuple((name, cells) for name, cells in rows if set(cells) != {UNKNOWN})


def distinct_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels, with numbers appended to equal ones."""
    counts, seen = Counter(labels), Counter[str]()
    found: list[str] = []
    for label in labels:
        seen[label] += 1
        found.append(f"{label} ({seen[label]})" if counts[label] > 1 else label)
    return found


def sentences(traces: Sequence[AnyTrace]) -> tuple[str, ...]:
    """Return the caveats to show above the runs."""
    prompts = {_prompt(each) for each in traces}
    return (NO_SPEEDUP_BETWEEN, PROMPTS_DIFFER) if len(prompts) > 1 else (NO_SPEEDUP_BETWEEN,)


def beside_html(
    labels: Sequence[str], traces: Sequence[AnyTrace], figures: Sequence[Metrics | None]
) -> str:
    """Return the table and the race as one HTML file."""
    first, *rest = sentences(traces)
    rows = rows_beside(traces, figures)
    return comparison_replay_html(
        labels, traces, figures=figures, verdict=first, facts=[*rest, LEGEND],
        table=[["", *labels], *([name, *cells] for name, cells in rows)], by_turns=False,
    )  # fmt: skip


# A column

_FIGURES = ("alpha_observed", "draft_acceptance_rate", "tau", "tokens_per_second", "ttft_ms")
_NAMES = (
    "Engine", "Model", "Where", "Candidates per round, γ", "Temperature", "Tokens", "Rounds",
    *(titled(CATALOGUE[name].label) for name in _FIGURES), "Speedup over its own target alone",
)  # fmt: skip


def _of_run(trace: Trace, m: Metrics | None) -> tuple[str, ...]:
    assert m is not None
    place, config = trace.environment, trace.config
    threads = f", {place.threads} threads" if place.threads > 1 else ""
    return (
        "specviz",
        trace.pair.name,
        f"{place.cpu if place.device == 'cpu' else place.device_name}{threads}",
        *_settings(config.gamma, config.temperature),
        *_counts(len(trace.token_ids), m.num_rounds),
        *_shown(CATALOGUE[name].of(m) for name in _FIGURES),
        _speedup(m.speedup_observed, m.speedup_low, m.speedup_high),
    )


def _of_answer(trace: ServerTrace) -> tuple[str, ...]:
    m, info, found = server_metrics(trace), trace.info, speedup_of(trace.baseline)
    ttft = None if m.ttft is None else 1000 * m.ttft
    return (
        info.title,
        info.model,
        info.address,
        *_settings(info.gamma, trace.settings.temperature),
        *_counts(reported_tokens(trace), m.num_rounds),
        *_shown((None, m.draft_acceptance_rate, m.tau, m.tokens_per_second, ttft)),
        _speedup(found.value, found.low, found.high) if found else UNKNOWN,
    )


def _settings(gamma: int | None, temperature: float) -> tuple[str, str]:
    return UNKNOWN if gamma is None else str(gamma), f"{temperature:g}"


def _counts(*counts: int | None) -> Iterator[str]:
    return (UNKNOWN if each is None else f"{each:,}" for each in counts)


def _shown(values: Iterable[float | None]) -> Iterator[str]:
    """Yield the values as the catalogue formats them."""
    for name, value in zip(_FIGURES, values, strict=True):
        yield CATALOGUE[name].quantity.shown(value)


def _speedup(value: float | None, low: float | None, high: float | None) -> str:
    return UNKNOWN if value is None else shown_speedup(value, low, high)


def _prompt(trace: AnyTrace) -> object:
    """Return the prompt: its text or, if it has none, its token ids."""
    if isinstance(trace, ServerTrace):
        return trace.prompt or trace.prompt_ids
    return trace.prompt.text or trace.prompt.token_ids

"""Save runs to the library; the columns that lists show are computed once, from the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.body_words import bodies_title
from specviz.figures.expectation import expected_speedup
from specviz.figures.metrics import Metrics
from specviz.figures.server_figures import figures_of
from specviz.figures.timing import timing_of
from specviz.record.server_run import AnyTrace, ServerTrace, dispatch
from specviz.record.trace import Trace
from specviz.store import Library, NewRun, RunSummary

_HEAD = 400  # searchable characters of the prompt and of the text
_ROUNDS = 60  # lists show the accepted candidates of this many first rounds
_LABEL = 200  # characters of a name in a list; a trace from elsewhere may have a longer name


def summary_of(trace: AnyTrace, figures: Metrics | None = None) -> RunSummary:
    """Return the columns that lists show; ``figures`` are the trace's metrics, if already computed.

    The "acceptance rate" of other engines is not our α, so α is None for their answers.
    """
    found, facts = figures or figures_of(trace), trace.facts
    return RunSummary(
        created=trace.created[:_LABEL],
        pair=facts.name[:_LABEL],
        prompt_head=facts.prompt[:_HEAD],
        text_head=trace.text[:_HEAD],
        gamma=facts.gamma,
        temperature=facts.temperature,
        finish=trace.finish,
        tokens=facts.num_tokens,
        alpha_observed=found.alpha_observed,
        alpha_expected=found.alpha_expected,
        tau=found.tau,
        tokens_per_second=found.tokens_per_second,
        engine=facts.engine and facts.engine[:_LABEL],
        seed=facts.seed,
        **dispatch(trace, _columns_of_run, _columns_of_answer),
    )


# Other engines report no device, drafter or rule, and no speedup is computed for their answers.
_NO_COLUMNS: dict[str, Any] = {
    "device": "", "kind": None, "drafter": None, "rule": None, "speedup": None
}  # fmt: skip


def _columns_of_answer(trace: ServerTrace) -> dict[str, Any]:
    counts = [each.accepted for each in trace.rounds if each.drafted is not None]
    known = None not in counts
    return _NO_COLUMNS | {"accepted": _listed(counts) if known else None}


def _listed(counts: Sequence[int | None]) -> str | None:
    """Return the counts of the first rounds, separated by commas; None if there are no rounds."""
    return ",".join(map(str, counts[:_ROUNDS])) or None


def _columns_of_run(trace: Trace) -> dict[str, Any]:
    """Return the columns that runs of specviz have, but answers of other engines do not."""
    config, kind, timing = trace.config, trace.prompt.kind, timing_of(trace.baseline, trace.rounds)
    return {
        "device": trace.environment.device_name[:_LABEL],
        "kind": kind and kind[:_LABEL],
        "drafter": config.drafter,
        "rule": config.rule,
        "fork": config.forks[-1].words if config.forks else None,
        "bodies": bodies_title(trace.pair)[:_LABEL],
        "weights": trace.pair.chosen_weights,
        "speedup": timing and timing.speedup,
        "speedup_low": timing and timing.low,
        "speedup_high": timing and timing.high,
        "speedup_expected": expected_speedup(trace),
        "accepted": _listed([each.num_accepted for each in trace.rounds]),
    }


def save_run(
    library: Library,
    trace: AnyTrace,
    *,
    run_id: str | None = None,
    name: str = "",
    comparison: str | None = None,
    job: tuple[int, int, int] | None = None,
    person: str = "",
) -> str:
    """Add a run to the library and return its id; the run is then durable."""
    run = NewRun(
        trace=trace,
        summary=summary_of(trace),
        run_id=run_id,
        name=name,
        comparison=comparison,
        job=job,
        person=person,
    )
    return library.add(run)

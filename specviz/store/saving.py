"""Save runs to the library, with the list columns computed once from the trace."""

from __future__ import annotations

from specviz.figures.body_words import bodies_title
from specviz.figures.expectation import expected_speedup
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.server_figures import reported_tokens, server_metrics
from specviz.record.server_run import AnyTrace, ServerTrace
from specviz.record.trace import Trace
from specviz.store import Library, RunSummary

_HEAD = 400  # searchable characters of the prompt and of the text
_LABEL = 200  # characters of a name in a list; traces may come from elsewhere


def summary_of(trace: AnyTrace, figures: Metrics | None = None) -> RunSummary:
    """Return the list columns; ``figures`` are the trace's, if already computed."""
    if isinstance(trace, ServerTrace):
        return _summary_of_answer(trace)
    return _summary_of_run(trace, figures)


def _summary_of_answer(trace: ServerTrace) -> RunSummary:
    """Return the columns of another engine's answer.

    Engines report no rule, drafter or device. Their "acceptance rate" is not our α, so α is None.
    """
    figures, info = server_metrics(trace), trace.info
    return RunSummary(
        created=trace.created[:_LABEL],
        pair=info.model[:_LABEL],
        device="",
        kind=None,
        prompt_head=trace.prompt[:_HEAD],
        text_head=trace.text[:_HEAD],
        gamma=info.gamma,
        temperature=trace.settings.temperature,
        drafter=None,
        rule=None,
        finish=trace.finish,
        tokens=reported_tokens(trace),
        alpha_observed=None,
        alpha_expected=None,
        tau=figures.tau,
        tokens_per_second=figures.tokens_per_second,
        speedup=None,
        engine=info.title[:_LABEL],
        seed=trace.settings.seed,
    )


def _summary_of_run(trace: Trace, figures: Metrics | None) -> RunSummary:
    figures = figures or metrics(trace, intervals=False)
    config = trace.config
    return RunSummary(
        created=trace.created[:_LABEL],
        pair=trace.pair.name[:_LABEL],
        device=trace.environment.device_name[:_LABEL],
        kind=trace.prompt.kind and trace.prompt.kind[:_LABEL],
        prompt_head=trace.prompt.text[:_HEAD],
        text_head=trace.text[:_HEAD],
        gamma=config.gamma,
        temperature=config.temperature,
        drafter=config.drafter,
        rule=config.rule,
        finish=trace.finish,
        fork=config.forks[-1].words if config.forks else None,
        bodies=bodies_title(trace.pair)[:_LABEL],
        tokens=len(trace.token_ids),
        alpha_observed=figures.alpha_observed,
        alpha_expected=figures.alpha_expected,
        tau=figures.tau,
        tokens_per_second=figures.tokens_per_second,
        speedup=figures.speedup_observed,
        speedup_low=figures.speedup_low,
        speedup_high=figures.speedup_high,
        speedup_expected=expected_speedup(trace),
        seed=config.seed,
    )


def save_run(
    library: Library,
    trace: AnyTrace,
    *,
    run_id: str | None = None,
    name: str = "",
    comparison: str | None = None,
    job: tuple[int, int, int] | None = None,
    memory_bytes: int | None = None,
    figures: Metrics | None = None,
) -> str:
    """Add a run to the library and return its id; the run is durable then."""
    return library.add(
        trace,
        summary_of(trace, figures),
        run_id=run_id,
        name=name,
        comparison=comparison,
        job=job,
        memory_bytes=memory_bytes,
    )

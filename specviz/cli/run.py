"""``run``: decode a prompt, print the rounds as they happen, then the text and the results.

Options are checked before a model is loaded. Ctrl-C ends the run after the current round and saves
it; a second Ctrl-C exits at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from specviz.cli.interrupts import Interrupts, stop_on_interrupt, waiting
from specviz.cli.makers import load_pair_of
from specviz.cli.option_values import (
    check_budget,
    check_pair,
    check_texts,
    config_from,
    prompt_from,
    spec_from,
    with_chat,
)
from specviz.cli.output_files import check_output
from specviz.cli.progress_lines import progress_in_lines, progress_once
from specviz.cli.progress_lines import say as print_line
from specviz.cli.render import render_heading, render_prompt_ids, render_round
from specviz.cli.show import print_report, print_result
from specviz.cli.terminal_text import Painter, one_line, painter_for
from specviz.errors import SpecvizError
from specviz.measure.stoppable import Stoppable
from specviz.record.pairs import ProgressCallback, default_gamma
from specviz.record.trace import Baseline, RunConfig, Trace

if TYPE_CHECKING:
    from specviz.measure.measured_run import MeasuredRun

STOPPED = 130
MEASURING = "measuring step costs: about 10 s at most, once for this pair and kind of sampling"


class Measurable(Stoppable, Protocol):
    def timed(self) -> Iterator[Baseline]: ...

    def complete(self, on_progress: ProgressCallback | None = None) -> None: ...

    def trace(self) -> Trace: ...


def command(options: argparse.Namespace) -> int:
    config = config_from(options)
    if options.gamma is None and config.draft_method.drafts_with:
        config = replace(config, gamma=default_gamma(spec_from(options)))
    check_budget(options)
    check_pair(options, needs_draft=config.draft_method.needs_draft)
    check_texts(options, [config])
    config = with_chat(config, options)
    prompt = prompt_from(options.prompt)
    if options.out is not None:
        check_output(options.out)
    painter = None if options.json else painter_for(sys.stdout, os.environ)
    with _clean_standard_output(json=options.json):
        trace, stopped = _decode(options, prompt, config, painter)
        if options.keep:
            _save_in_library(trace)  # before the file: if writing it fails, the run is kept
        _save_file(options, trace)
        own = (
            None
            if trace.baseline is None
            else _speedup_without_body(options, prompt, config, trace)
        )
    if painter is None:
        print_report(trace, own)
    else:
        print_result(painter, trace, own)
    return STOPPED if stopped else 0


def _clean_standard_output(*, json: bool) -> contextlib.AbstractContextManager[object]:
    """Return a context manager; with ``json``, it redirects standard output to standard error."""
    return contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()


def _decode(
    options: argparse.Namespace, prompt: str, config: RunConfig, painter: Painter | None
) -> tuple[Trace, bool]:
    """Decode the prompt; return the trace of the run, and whether Ctrl-C stopped it."""
    from specviz.measure.measured_run import measured_run

    with waiting("loading the models") as say:
        pair = load_pair_of(options, say)
    with waiting("preparing the run") as say:
        run = measured_run(
            pair,
            prompt,
            config,
            baseline=options.baseline,
            budget=options.budget,
            fresh_costs=options.measure_costs,
            on_progress=_costs_progress(say),
        )
    with stop_on_interrupt(run) as interrupts:
        _watch(run, config, painter)
        trace = finished(run, interrupts)
    return trace, interrupts.count > 0


def _speedup_without_body(
    options: argparse.Namespace, prompt: str, config: RunConfig, trace: Trace
) -> float | None:
    """Return the speedup of the run's pair at its real size, either stored or measured now.

    Return None if the run simulated no size, or after Ctrl-C.
    """
    if not trace.pair.has_bodies:
        return None
    from specviz.figures.metrics import metrics
    from specviz.measure.measured_run import finish, measured_run
    from specviz.measure.speedup_without_body import kept_speedup_without_body
    from specviz.store import Library

    with contextlib.suppress(SpecvizError):
        if (stored := kept_speedup_without_body(Library(), trace)) is not None:
            return stored
    with (
        contextlib.suppress(KeyboardInterrupt),
        waiting("measuring the same pair at its own size") as say,
    ):
        from specviz.measure.loaded_pairs import load

        pair = load(spec_from(options).without_bodies, progress_in_lines(say))
        own = finish(
            measured_run(pair, prompt, config, budget=options.budget), progress_in_lines(say)
        )
        if options.keep:
            _save_in_library(own)
        return metrics(own, intervals=False).speedup_observed
    return None


def _watch(run: MeasuredRun, config: RunConfig, painter: Painter | None) -> None:
    if painter is not None and config.chat:
        print(render_prompt_ids(painter, run.prompt) + "\n")
    if painter is not None:
        print(render_heading(painter, config), flush=True)
    for entry in run:
        if painter is not None:
            print(render_round(painter, entry), flush=True)


def _save_file(options: argparse.Namespace, trace: Trace) -> None:
    from specviz.store import save_trace

    if options.out is not None:
        save_trace(trace, options.out)
        print(f"saved {one_line(str(options.out))}", file=sys.stderr)


def _save_in_library(trace: Trace) -> None:
    """Save the run in the library; report a failure and continue."""
    from specviz.store import Library
    from specviz.store.saving import save_run

    if not trace.rounds:
        return
    try:
        save_run(Library(), trace)
    except SpecvizError as error:
        print(f"not saved in the run library: {one_line(error.in_full)}", file=sys.stderr)


def finished(run: Measurable, interrupts: Interrupts) -> Trace:
    """Time the target alone and return the trace; Ctrl-C ends the timing and keeps its results."""
    interrupts.at_once = True
    try:
        with waiting("timing the target alone") as say:
            for _ in run.timed():
                say(_timing_so_far(run.trace()))
        with waiting("measuring step costs") as say:
            run.complete(_costs_progress(say))
    except KeyboardInterrupt:
        if interrupts.count > 1:
            raise
    return run.trace()


def _timing_so_far(trace: Trace) -> str:
    from specviz.figures.metrics import metrics
    from specviz.figures.speedup_words import speedup_sentence

    figures = metrics(trace, intervals=False)
    return f"timing the target alone: {speedup_sentence(figures, trace, so_far=True)}"


def _costs_progress(say: Callable[[str], None]) -> ProgressCallback:
    return progress_in_lines(say) if sys.stderr.isatty() else progress_once(MEASURING, print_line)

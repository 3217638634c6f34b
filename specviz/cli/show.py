"""``show``: replay a saved trace in the terminal, without models and without torch."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from specviz.cli.figures import render_figures
from specviz.cli.output_files import check_output, save_text
from specviz.cli.render import render_heading, render_prompt_ids, render_round, render_text
from specviz.cli.report import body_report, report, to_json
from specviz.cli.terminal_text import Painter, painter_for
from specviz.record.server_run import AnyTrace, ServerTrace, dispatch
from specviz.record.trace import Trace

_LONGEST_PAUSE = 10.0  # seconds; a file may contain longer rounds


def command(options: argparse.Namespace) -> int:
    from specviz.store import load_run

    if options.html is not None:
        check_output(options.html, "--html")
    trace = load_run(options.file)
    if options.html is not None:
        _write_replay(trace, options.html)
    if options.json:
        dispatch(trace, print_report, _print_answer_report)
    if not options.json and options.html is None:
        painter = painter_for(sys.stdout, os.environ)
        dispatch(
            trace,
            lambda run: _show_run(painter, run, pace=options.pace),
            lambda answer: _show_answer(painter, answer, pace=options.pace),
        )
    return 0


def _print_answer_report(trace: ServerTrace) -> None:
    from specviz.cli.report import answers_report

    print(to_json(answers_report(trace.info, [trace])))


def _show_answer(painter: Painter, trace: ServerTrace, *, pace: bool) -> None:
    """Print a saved answer of another engine, as ``attach`` does.

    ``pace``: whether to print the rounds at the speed at which they arrived.
    """
    from specviz.cli.server_render import (
        render_answer,
        render_server,
        render_server_round,
        server_heading,
    )
    from specviz.figures.server_figures import server_metrics

    print(f"{render_server(painter, trace.info)}\n\n{server_heading(painter)}", flush=True)
    before = 0.0
    for entry in trace.rounds:
        if pace:
            time.sleep(min(entry.at - before, _LONGEST_PAUSE))
        before = entry.at
        print(render_server_round(painter, entry), flush=pace)
    print(f"\n{render_answer(painter, trace, server_metrics(trace))}")


def _write_replay(trace: AnyTrace, path: Path) -> None:
    from specviz.player.replay import replay_html

    save_text(path, replay_html(trace), "--html", "Choose a folder with free space.")


def print_report(trace: Trace, own_speedup: float | None = None) -> None:
    """Print the settings and results of a run as JSON.

    Args:
        own_speedup: The speedup of the run's pair at its real size; None if unknown. It is printed
            only if the run simulated a size.
    """
    from specviz.figures.metrics import metrics
    from specviz.figures.waterfall import waterfall

    figures = metrics(trace)
    record = report(trace, figures.as_dict(), body_report(trace, figures, own_speedup))
    where_it_went = waterfall(trace, figures)
    print(to_json(record | {"waterfall": where_it_went and where_it_went.as_dict()}))


def print_result(painter: Painter, trace: Trace, own_speedup: float | None = None) -> None:
    """Print the text and the results of a run; ``own_speedup`` is as in ``print_report``."""
    from specviz.figures.body_words import body_sentences
    from specviz.figures.metrics import metrics
    from specviz.figures.speedup_words import speedup_sentence, timing_sentence

    figures = metrics(trace)
    print(f"\n{render_text(painter, trace)}\n")
    bodies = body_sentences(trace, figures, own_speedup)
    verdict = (speedup_sentence(figures, trace), timing_sentence(figures, trace))
    print(render_figures(painter, trace, figures, " ".join(verdict).rstrip(), bodies))


def _show_run(painter: Painter, trace: Trace, *, pace: bool) -> None:
    if trace.config.chat:
        print(render_prompt_ids(painter, trace.prompt))
    print(render_heading(painter, trace.config), flush=True)
    for entry in trace.rounds:
        if pace:
            time.sleep(min(entry.times.decode, _LONGEST_PAUSE))
        print(render_round(painter, entry), flush=pace)
    print_result(painter, trace)

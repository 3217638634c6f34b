"""``audit``: test that a pair's output follows the target's distribution.

With ``--break``, a bug is injected, to check whether the audit finds the bug.

The exit code is 1 if the test rejects the output. At temperature 0, the exit code is also 1 if a
token differs from the token of the target alone, unless the two tokens are almost equally likely.

The JSON key ``e_value`` holds the natural logarithm of the e-value.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from dataclasses import asdict, replace
from typing import Any

from specviz.cli.interrupts import waiting
from specviz.cli.makers import load_pair_of
from specviz.cli.option_values import check_pair, check_texts, config_from, with_chat
from specviz.cli.progress_lines import at_intervals
from specviz.cli.progress_lines import say as print_line
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph
from specviz.errors import ConfigError
from specviz.record.breaks import BREAKS
from specviz.record.trace import RunConfig
from specviz.tune.audit import Audit, AuditReport, sentences

NOT_THE_TARGET = 1
# An audit sets its own length limits and stop conditions.
_DEFAULTS = RunConfig()
_WITHOUT_EFFECT = {"max_new_tokens": "--max-new-tokens", "stop": "--stop", "forks": "--fork"}


def command(options: argparse.Namespace) -> int:
    config = config_from(options)
    _check_effect(config)
    needs_draft = config.draft_method.needs_draft or options.broken is not None
    check_pair(options, needs_draft=needs_draft)
    config = with_chat(config, options)
    audit = Audit(
        config=replace(config, seed=0),
        runs=options.runs,
        broken=options.broken,
        seed=options.seed,
    )
    check_texts(options, [config])
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        report = _run_audit(audit, options)
    if options.json:
        print(to_json(to_report(report)))
    else:
        print(render_audit(painter_for(sys.stdout, os.environ), report))
    return 0 if report.passes else NOT_THE_TARGET


def _check_effect(config: RunConfig) -> None:
    for name, option in _WITHOUT_EFFECT.items():
        if getattr(config, name) != getattr(_DEFAULTS, name):
            raise ConfigError(f"{option} has no effect on an audit.", remedy="Leave it out.")


def _run_audit(audit: Audit, options: argparse.Namespace) -> AuditReport:
    with waiting("loading the models") as say:
        pair = load_pair_of(options, say)
    report: AuditReport | None = None
    with waiting("auditing") as say:
        in_place = sys.stderr.isatty()
        show = say if in_place else print_line
        show_runs = show if in_place else at_intervals(show)
        for report in audit.find(pair):
            show_runs(f"run {report.runs:,} of {report.planned:,}: {sentences(report)[0]}")
            if report.runs == report.planned and report.greedy is None:
                show("comparing the output at temperature 0 with the target alone")
    assert report is not None
    return report


def to_report(report: AuditReport) -> dict[str, Any]:
    greedy = report.greedy
    return asdict(report) | {
        "alarm": report.alarm,
        "passes": report.passes,
        "greedy_equal": None if greedy is None else greedy.equal,
        "sentences": sentences(report),
    }


def render_audit(painter: Painter, report: AuditReport) -> str:
    """Render the verdict of an audit and its evidence as text for the terminal."""
    verdict, *others = sentences(report)
    if report.broken is not None:
        others.insert(1, BREAKS[report.broken].why)
    first = paragraph(painter, verdict, "bold" if report.passes else "warning")
    return "\n".join([first, *(paragraph(painter, each) for each in others)])

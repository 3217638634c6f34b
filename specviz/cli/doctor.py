"""``doctor``: find out why a head's candidates are not accepted.

A head is a drafting head such as EAGLE, which uses the target's hidden states. The exit code is 1
if the head drafts better with settings other than those in its files. With ``--against``, running
engines are compared with specviz; see ``parity``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.cli.interrupts import waiting
from specviz.cli.makers import load_pair_of
from specviz.cli.option_values import config_from, spec_from, with_chat
from specviz.cli.output_files import check_output
from specviz.cli.parity import compare_engines
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph
from specviz.errors import ConfigError
from specviz.formats.head_corrections import corrected_config
from specviz.formats.heads import HeadFacts, read_head
from specviz.record.numbers import PROBABILITY, TOKENS
from specviz.store.files import write_file
from specviz.tune.doctor import Doctor, DoctorReport, ReadingResult, advice, verdict

if TYPE_CHECKING:
    from specviz.engine import Pair

WRONG_SETTINGS = 1


def command(options: argparse.Namespace) -> int:
    options.other_target = True  # such a head is examined, too; the report has a warning
    config = with_chat(config_from(options), options)
    if not spec_from(options).head:
        raise ConfigError(
            "The doctor needs a head.",
            remedy="Give its folder with --head, or a Hub id with --head and --drafter.",
        )
    if options.against:
        return compare_engines(options, config)
    if options.prompts is not None:
        raise ConfigError(
            "--prompts needs a running engine.",
            remedy="Give its address with --against, or omit --prompts.",
        )
    doctor = Doctor(config=config, tokens=options.tokens)
    facts = None if options.write is None else _facts_to_write(options)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        report = _examine(doctor, options)
    if options.json:
        print(to_json(report_values(report)))
    else:
        print("\n".join(_lines(painter_for(sys.stdout, os.environ), report)))
    if facts is not None and options.write is not None:
        _write(facts, report, options.write)
    return 0 if report.healthy else WRONG_SETTINGS


def _examine(doctor: Doctor, options: argparse.Namespace) -> DoctorReport:
    with waiting("loading the models") as say:
        pair: Pair = load_pair_of(options, say)
    report: DoctorReport | None = None
    with waiting("examining the head") as say:
        for each in doctor.find(pair):
            if isinstance(each, DoctorReport):
                report = each
            else:
                say(f"{each.doing}: setting {each.done} of {each.planned}")
    assert report is not None
    return report


def _facts_to_write(options: argparse.Namespace) -> HeadFacts:
    """Return what the head's files contain, so that --write can correct the configuration.

    Raises:
        ConfigError: The file cannot be written, or the head is not in a folder.
    """
    check_output(options.write, "--write")
    draft = spec_from(options).draft_place or ""
    facts = read_head(Path(os.path.expanduser(draft))) if os.path.isdir(draft) else None
    if facts is None:
        raise ConfigError(
            "--write needs a head that is in a folder.",
            remedy="Give the head's folder, not a Hub id.",
        )
    return facts


def _write(facts: HeadFacts, report: DoctorReport, path: Path) -> None:
    made = corrected_config(facts, dict(report.best.changes))
    try:
        write_file(path, json.dumps(made, indent=2) + "\n")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}.",
            remedy="Give a file in a writable folder.",
        ) from None


def report_values(report: DoctorReport) -> dict[str, Any]:
    own = {"healthy": report.healthy, "verdict": verdict(report), "advice": advice(report)}
    found = asdict(report) | {"settings": dict(report.settings)}
    found["results"] = [
        asdict(each) | {"changes": dict(each.changes), "better": each.better}
        for each in report.results
    ]
    return found | own


def _lines(painter: Painter, report: DoctorReport) -> Iterator[str]:
    yield paragraph(painter, verdict(report), "bold" if report.healthy else "warning")
    for each in advice(report):
        yield paragraph(painter, each)
    yield ""
    for each in report.results:
        yield from _result_lines(painter, each)
    yield ""
    size = f"{report.tried} settings tried on {report.tokens} tokens of {report.target}"
    yield paragraph(painter, f"{report.head}: {size}.", "dim")
    for each in report.warnings:
        yield paragraph(painter, f"note: {each}", "dim")


def _result_lines(painter: Painter, result: ReadingResult) -> Iterator[str]:
    positions = "  ".join(PROBABILITY.shown(each) for each in result.by_position)
    yield paragraph(painter, result.words)
    gain = "" if result.own else f", {TOKENS.between(result.low, result.high)} more"
    yield f"    {positions}   {TOKENS.shown(result.accepted)} accepted per round{gain}"

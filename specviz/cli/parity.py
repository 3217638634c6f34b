"""``doctor --against``: compare the acceptance of running engines with specviz's acceptance.

The exit code is 1 if an engine measurably accepts less than specviz, the reference.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specviz.cli.interrupts import stop_on_interrupt, waiting
from specviz.cli.makers import load_pair_of
from specviz.cli.progress_lines import say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph
from specviz.errors import ConfigError
from specviz.local_models.fitting import last_part
from specviz.measure.stoppable import StoppedError
from specviz.record.numbers import PROBABILITY, TOKENS
from specviz.record.run_config import RunConfig
from specviz.tune.parity import Parity
from specviz.tune.parity_values import ConditionResult, ParityReport, Rates, parity_verdict

if TYPE_CHECKING:
    from specviz.servers.acceptance import AcceptanceMeter, MeasuringPlan

LOWER, STOPPED = 1, 130
_MOST_ENGINES = 2


def compare_engines(options: argparse.Namespace, config: RunConfig) -> int:
    from specviz.servers.acceptance import PROMPTS, measuring_plan

    if len(options.against) > _MOST_ENGINES:
        raise ConfigError("More than two engines are given.", remedy="Compare one or two.")
    if options.write is not None:
        raise ConfigError("--write and --against exclude each other.", remedy="Give one of them.")
    count = PROMPTS if options.prompts is None else options.prompts
    plan = measuring_plan(config, count)
    meters = [_meter(options, plan, address) for address in options.against]
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        with waiting("loading the models") as show:
            pair = load_pair_of(options, show)
        try:
            measured = [_measure(each, plan, address) for each, address in meters]
        except StoppedError:
            return STOPPED
        study, reports = Parity(measured=tuple(measured), config=config), list[ParityReport]()
        with waiting(study.label) as show:
            for each in study.find(pair):
                if isinstance(each, ParityReport):
                    reports.append(each)
                else:
                    show(f"{each.doing}: {each.done} of {each.planned}")
    _print(options, reports)
    return LOWER if any(each.lower for each in reports) else 0


def _meter(
    options: argparse.Namespace, plan: MeasuringPlan, address: str
) -> tuple[AcceptanceMeter, str]:
    from specviz.servers.acceptance import AcceptanceMeter
    from specviz.servers.address import SERVER_KEY, withheld_key
    from specviz.servers.finding import find_server

    info = find_server(address, allow_remote=options.allow_remote)
    if withheld := withheld_key(SERVER_KEY, info.address):
        say(withheld)
    return AcceptanceMeter(info, plan, allow_remote=options.allow_remote), info.address


def _measure(meter: AcceptanceMeter, plan: MeasuringPlan, address: str) -> Any:
    say(f"sending {plan.words(address)}")
    with stop_on_interrupt(meter):
        return meter.measure()


def _print(options: argparse.Namespace, reports: Sequence[ParityReport]) -> None:
    if options.json:
        print(to_json({"engines": [parity_report_values(each) for each in reports]}))
        return
    painter = painter_for(sys.stdout, os.environ)
    print("\n\n".join("\n".join(_lines(painter, each)) for each in reports))


def parity_report_values(report: ParityReport) -> dict[str, Any]:
    return asdict(report) | {"verdict": parity_verdict(report), "lower": report.lower}


def _lines(painter: Painter, report: ParityReport) -> Iterator[str]:
    yield paragraph(painter, f"{report.title} at {report.address}")
    yield paragraph(painter, parity_verdict(report), "warning" if report.findings else "bold")
    for finding in report.findings:
        yield paragraph(painter, finding.sentence)
    yield ""
    yield paragraph(
        painter, "acceptance by position, if all previous candidates were accepted", "dim"
    )
    yield from (_rates_line(each.position, each.given) for each in report.positions)
    yield paragraph(painter, "acceptance by position, per round", "dim")
    yield from (_rates_line(each.position, each.per_round) for each in report.positions)
    yield paragraph(painter, "tokens per round", "dim")
    for each in report.conditions:
        yield f"    {_condition_line(each)}"
    yield ""
    size = (
        f"{report.num_prompts} prompts, {report.gamma} candidates per round; in {report.same_text} "
        f"of {report.num_prompts} texts, every token is that of {last_part(report.target)}; "
        f"intervals corrected for {report.num_comparisons} comparisons"
    )
    yield paragraph(painter, f"{last_part(report.head)}: {size}.", "dim")
    for note in report.notes:
        yield paragraph(painter, f"note: {note}", "dim")


def _rates_line(position: int, rates: Rates) -> str:
    return (
        f"    {position}   engine {PROBABILITY.shown(rates.engine)}   "
        f"reference {PROBABILITY.shown(rates.reference)}   difference "
        f"{PROBABILITY.signed(rates.low)} to {PROBABILITY.signed(rates.high)}"
    )


def _condition_line(result: ConditionResult) -> str:
    return (
        f"{result.words}: engine {TOKENS.shown(result.engine.tau)}, "
        f"reference {TOKENS.shown(result.reference.tau)}, difference {result.interval_words}"
    )

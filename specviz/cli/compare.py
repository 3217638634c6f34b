"""``compare``: two to four lanes on the same prompts, and a verdict.

Every finished run is kept in the run library before it is reported. So if the command is killed,
the same command goes on where it was, even with --restart.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.cli.compare_table import render_comparison
from specviz.cli.makers import maker_for
from specviz.cli.options import (
    check_budget,
    check_pair,
    check_texts,
    config_from,
    items_from,
    spec_from,
)
from specviz.cli.output_files import check_output, save_text
from specviz.cli.report import to_json
from specviz.cli.terminal_text import one_line, painter_for
from specviz.comparison.plan import (
    Lane,
    Plan,
    PlannedRun,
    SuiteItem,
    check_compared,
    parse_lane,
    preset_suite,
)
from specviz.comparison.regression import RegressionLimit, check_regression
from specviz.errors import ConfigError, SpecvizError
from specviz.record.numbers import RATE

if TYPE_CHECKING:
    from specviz.comparison import Comparison, LaneRun
    from specviz.comparison.comparison_job import ComparisonJob
    from specviz.measure.run_makers import RunMaker

REGRESSION = 1
OUR_BUG = 70  # EX_SOFTWARE of sysexits.h
_NO_ROOM = "Choose another place; the runs are kept."


def command(options: argparse.Namespace) -> int:
    """The exit code 1 means that a lane is slower, so no other end may have it."""
    try:
        return _exit_code(options)
    except (SpecvizError, BrokenPipeError):
        raise
    except Exception:
        traceback.print_exc()
        return OUR_BUG


def _exit_code(options: argparse.Namespace) -> int:
    plan = plan_from(options)
    limit = RegressionLimit.of(options, plan)
    for path, flag in ((options.out, "--out"), (options.html, "--html")):
        if path is not None:
            check_output(path, flag)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        comparison, runs, counts = _compared(plan, options)
    from specviz.comparison import comparison_to_json

    record = comparison_to_json(comparison) | {"runs": counts}
    checked = check_regression(record, limit) if limit else None
    record |= {"against": checked.record} if checked else {}
    if options.out is not None:
        save_text(options.out, to_json(record) + "\n", "--out", _NO_ROOM)
    if options.html is not None:
        from specviz.player.replay import comparison_html

        save_text(options.html, comparison_html(comparison, runs), "--html", _NO_ROOM)
    painter = painter_for(sys.stdout, os.environ)
    print(to_json(record) if options.json else render_comparison(painter, comparison, checked))
    return REGRESSION if checked and checked.failed else 0


# What to compare


def plan_from(options: argparse.Namespace) -> Plan:
    """Raises ConfigError if the lanes or prompts cannot be compared; loads no model."""
    check_pair(options, needs_draft=False)
    check_budget(options)
    default = Lane(spec=spec_from(options), config=config_from(options))
    lanes = tuple(_with_texts_it_takes(parse_lane(text, default)) for text in options.lane or ())
    check_texts(options, [each.config for each in lanes])
    check_compared(lanes)
    return Plan(
        lanes=lanes, items=_items(options), repeats=options.repeats, baseline=options.baseline
    )


def _with_texts_it_takes(lane: Lane) -> Lane:
    if lane.config.draft_method.takes_texts:
        return lane
    return replace(lane, spec=replace(lane.spec, suffix_texts=""))


def _items(options: argparse.Namespace) -> tuple[SuiteItem, ...]:
    named = items_from(options)
    if named:
        return named
    if options.presets:
        return preset_suite()
    raise ConfigError("There is no prompt.", remedy="Give --prompt, --suite or --presets.")


# The runs


def _compared(
    plan: Plan, options: argparse.Namespace
) -> tuple[Comparison, Sequence[LaneRun], dict[str, int]]:
    """The comparison, its runs, and how many of them were kept before and how many are new."""
    with maker_for(options, _say, timed=plan.baseline) as maker:
        work = _work(plan, options, maker)
        work.prepare()
        before, total = work.progress
        _tell_what_is_kept(work, restart=options.restart)
        if before < total and work.blocks:
            _say(f"the pairs do not fit into memory together; in this order: {_blocks(work)}")
        try:
            for run in work.make_missing():
                _say(f"kept {work.progress[0]} of {total}: {_named(plan, run.job)}{_rate(run)}")
        except KeyboardInterrupt:
            kept = work.progress[0]
            _say(f"{kept} of {total} runs are kept; the same command goes on from there")
            raise
    assert work.comparison is not None
    return work.comparison, work.measured, {"kept": before, "measured": total - before}


def _work(plan: Plan, options: argparse.Namespace, maker: RunMaker) -> ComparisonJob:
    """With --against, finished comparisons are not reused but measured again."""
    from specviz.comparison.comparison_job import ComparisonJob
    from specviz.comparison.kept_runs import Reuse
    from specviz.store import Library

    fresh: Reuse = "restarted" if options.restart else "unfinished"
    return ComparisonJob(
        plan,
        maker,
        Library(),
        title=options.title,
        reuse=fresh if options.restart or options.against else "any",
        must_keep=True,
    )


def _tell_what_is_kept(work: ComparisonJob, *, restart: bool) -> None:
    if work.changed:
        _say(
            "the runs kept from before were made with other models, on another machine or with "
            "other versions; all lanes are measured anew"
        )
    elif work.found:
        again = "" if restart else "; --restart measures them again"
        _say(f"{work.found} of {work.progress[1]} runs are kept from before{again}")


def _blocks(work: ComparisonJob) -> str:
    return ", then ".join(work.blocks)


def _named(plan: Plan, job: PlannedRun) -> str:
    kind = plan.items[job.item].kind
    prompt = f"prompt {job.item + 1} of {len(plan.items)}" + (f" ({kind})" if kind else "")
    return f"{plan.labels[job.lane]}, {prompt}, seed {job.config(plan).seed}"


def _rate(run: LaneRun) -> str:
    rate = run.figures.tokens_per_second
    return "" if rate is None else f", {RATE.bare(rate)} tokens/s"


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)

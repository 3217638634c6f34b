"""``compare``: measure two to four lanes on the same prompts and give a verdict.

A lane is a pair of models with settings.

Every finished run is saved in the run library before it is reported. If the process is killed,
repeat the command to measure only the missing runs. With --restart, the runs of earlier
comparisons are not used. If a command with --restart is killed, repeat it with --restart: it
continues where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.cli.chat_default import uses_chat
from specviz.cli.compare_table import render_comparison
from specviz.cli.makers import maker_for
from specviz.cli.option_values import (
    check_budget,
    check_pair,
    check_texts,
    config_from,
    items_from,
    named_lane,
    spec_from,
)
from specviz.cli.output_files import check_output, save_text
from specviz.cli.progress_lines import say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import painter_for
from specviz.comparison.plan import (
    Lane,
    Plan,
    PlannedRun,
    SuiteItem,
    check_compared,
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
INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
_CHAT = re.compile(r"(^|,)\s*chat\s*=")  # in a lane
_SAVE_REMEDY = "Choose another folder; the runs are in the run library."


def command(options: argparse.Namespace) -> int:
    """Run the command and return its exit code; unexpected errors return 70, regressions 1."""
    try:
        return _exit_code(options)
    except (SpecvizError, BrokenPipeError):
        raise
    except Exception:
        traceback.print_exc()
        return INTERNAL_ERROR


def _exit_code(options: argparse.Namespace) -> int:
    plan = plan_from(options)
    limit = RegressionLimit.of(options, plan)
    for path, flag in ((options.out, "--out"), (options.html, "--html")):
        if path is not None:
            check_output(path, flag)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        comparison, runs, counts = _run_comparison(plan, options)
    from specviz.comparison import comparison_to_json

    record = comparison_to_json(comparison) | {"runs": counts}
    checked = check_regression(record, limit) if limit else None
    record |= {"against": checked.record} if checked else {}
    if options.out is not None:
        save_text(options.out, to_json(record) + "\n", "--out", _SAVE_REMEDY)
    if options.html is not None:
        from specviz.player.replay import comparison_html

        save_text(options.html, comparison_html(comparison, runs), "--html", _SAVE_REMEDY)
    painter = painter_for(sys.stdout, os.environ)
    print(to_json(record) if options.json else render_comparison(painter, comparison, checked))
    return REGRESSION if checked and checked.failed else 0


# What to compare


def plan_from(options: argparse.Namespace) -> Plan:
    """Return what to measure (lanes, prompts and repeats), without loading a model.

    Raises:
        ConfigError: The lanes or prompts cannot be compared.
    """
    check_pair(options, needs_draft=False)
    check_budget(options)
    texts = options.lane or ()
    default = Lane(spec=spec_from(options), config=config_from(options))
    lanes = [_without_unused_texts(named_lane(text, default)) for text in texts]
    if options.chat is None:
        lanes = _with_one_chat(lanes, [bool(_CHAT.search(each)) for each in texts])
    check_texts(options, [each.config for each in lanes])
    check_compared(lanes)
    return Plan(
        lanes=tuple(lanes),
        items=_items(options),
        repeats=options.repeats,
        baseline=options.baseline,
    )


def _with_one_chat(lanes: Sequence[Lane], named: Sequence[bool]) -> list[Lane]:
    """Return the lanes, with one chat setting for all lanes that do not choose it themselves.

    ``named``: for each lane, whether its text has ``chat=``. All lanes without ``chat=`` get the
    first setting that is given. If no lane has ``chat=``, chat templates are used if every target
    has a chat template.
    """
    found = [each.config.chat for each, is_named in zip(lanes, named, strict=True) if is_named]
    chat = found[0] if found else all(uses_chat(None, spec) for spec in {e.spec for e in lanes})
    return [
        each if is_named else replace(each, config=replace(each.config, chat=chat))
        for each, is_named in zip(lanes, named, strict=True)
    ]


def _without_unused_texts(lane: Lane) -> Lane:
    if lane.config.draft_method.takes_texts:
        return lane
    return replace(lane, spec=replace(lane.spec, suffix_texts=""))


def _items(options: argparse.Namespace) -> tuple[SuiteItem, ...]:
    items = items_from(options)
    if items:
        return items
    if options.presets:
        return preset_suite()
    raise ConfigError("There is no prompt.", remedy="Give --prompt, --suite, --presets or --tasks.")


# The runs


def _run_comparison(
    plan: Plan, options: argparse.Namespace
) -> tuple[Comparison, Sequence[LaneRun], dict[str, int]]:
    """Make the missing runs; return the comparison and its runs.

    Also return how many of the runs were stored already, and how many were made now.
    """
    with maker_for(options, say, timed=plan.baseline) as maker:
        job = _comparison_job(plan, options, maker)
        job.prepare()
        before, total = job.progress
        _report_stored_runs(job, restart=options.restart)
        if before < total and job.blocks:
            say(f"the pairs do not fit into memory together; measuring {_blocks_in_order(job)}")
        try:
            for run in job.make_missing():
                say(f"saved {job.progress[0]} of {total}: {_run_name(plan, run.job)}{_rate(run)}")
        except KeyboardInterrupt:
            saved = job.progress[0]
            say(f"saved {saved} of {total} runs; the same command continues from there")
            raise
    assert job.comparison is not None
    return job.comparison, job.measured, {"kept": before, "measured": total - before}


def _comparison_job(plan: Plan, options: argparse.Namespace, maker: RunMaker) -> ComparisonJob:
    """Return the job. With --against, the runs of a finished comparison are measured again."""
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


def _report_stored_runs(job: ComparisonJob, *, restart: bool) -> None:
    if job.changed:
        say(
            "the stored runs are from other models, another machine or other versions; measuring "
            "all lanes again"
        )
    elif job.found:
        again = "" if restart else "; --restart measures them again"
        say(f"{job.found} of {job.progress[1]} runs are stored already{again}")


def _blocks_in_order(job: ComparisonJob) -> str:
    return ", then ".join(job.blocks)


def _run_name(plan: Plan, job: PlannedRun) -> str:
    kind = plan.items[job.item].kind
    prompt = f"prompt {job.item + 1} of {len(plan.items)}" + (f" ({kind})" if kind else "")
    return f"{plan.labels[job.lane]}, {prompt}, seed {job.config(plan).seed}"


def _rate(run: LaneRun) -> str:
    rate = run.figures.tokens_per_second
    return "" if rate is None else f", {RATE.bare(rate)} tokens/s"

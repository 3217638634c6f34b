"""``compare``: lanes side by side on the same prompts, kept run by run, and a verdict.

Every finished run is kept in the run library before it is reported, so a comparison that was
killed goes on where it was when the same command is given again, with --restart too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specviz.cli.compare_table import render_comparison
from specviz.cli.options import check_out, check_pair, config_from, prompt_from, spec_from
from specviz.cli.painter import one_line, painter_for
from specviz.cli.report import to_json
from specviz.cli.saving import save_text
from specviz.cli.telling import in_lines
from specviz.comparison.plan import Job, Lane, Plan, SuiteItem, parse_lane, preset_suite, read_suite
from specviz.comparison.regression import Allowance, check_against
from specviz.errors import ConfigError, SpecvizError
from specviz.record.numbers import RATE
from specviz.record.pairs import PairSpec
from specviz.record.suites import MAX_SUITE_BYTES
from specviz.store.text_files import read_text

if TYPE_CHECKING:
    from specviz.comparison import Comparison, Measured
    from specviz.comparison.kept import KeptRuns
    from specviz.record.pairs import PairCheck

REGRESSION = 1
OUR_BUG = 70  # EX_SOFTWARE of sysexits.h
_NO_ROOM = "Choose another place; the runs are kept."


def command(options: argparse.Namespace) -> int:
    """An exit code of 1 says that a lane is slower, so nothing else may end with it."""
    try:
        return _obey(options)
    except (SpecvizError, BrokenPipeError):
        raise
    except Exception:
        traceback.print_exc()
        return OUR_BUG


def _obey(options: argparse.Namespace) -> int:
    plan = plan_from(options)
    allowance = Allowance.of(options, plan)
    for path, flag in ((options.out, "--out"), (options.html, "--html")):
        if path is not None:
            check_out(path, flag)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        comparison, runs, counts = _compared(plan, options)
    from specviz.comparison import comparison_to_json

    record = comparison_to_json(comparison) | {"runs": counts}
    checked = check_against(record, allowance) if allowance else None
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
    """Raises ConfigError for lanes or prompts that cannot be compared; loads no model."""
    check_pair(options, needs_draft=False)
    default = Lane(spec=spec_from(options), config=config_from(options))
    lanes = tuple(parse_lane(text, default) for text in options.lane or ())
    return Plan(
        lanes=lanes, items=_items(options), repeats=options.repeats, baseline=options.baseline
    )


def _items(options: argparse.Namespace) -> tuple[SuiteItem, ...]:
    if options.suite is not None:
        text = read_text(options.suite, "--suite", MAX_SUITE_BYTES)
        return read_suite(text, str(options.suite))
    if options.prompt is not None:
        return (SuiteItem(prompt=prompt_from(options.prompt)),)
    if options.presets:
        return preset_suite()
    raise ConfigError("There is no prompt.", remedy="Give --prompt, --suite or --presets.")


# The runs


def _compared(
    plan: Plan, options: argparse.Namespace
) -> tuple[Comparison, Sequence[Measured], dict[str, int]]:
    """With its runs, and how many of them were kept from before and how many are new."""
    from specviz.comparison import compare

    checks = _checks(plan)
    kept = _kept_runs(plan, checks, options)
    before, total = len(kept.runs), len(plan.jobs())
    try:
        for run in _rest(plan, checks, kept):
            _say(f"kept {len(kept.runs)} of {total}: {_named(plan, run.job)}{_rate(run)}")
    except KeyboardInterrupt:
        _say(f"{len(kept.runs)} of {total} runs are kept; the same command goes on from there")
        raise
    counts = {"kept": before, "measured": len(kept.runs) - before}
    return compare(plan, kept.runs), kept.runs, counts


def _checks(plan: Plan) -> dict[PairSpec, PairCheck]:
    """Of each pair: what it needs, what is there now, and that it can continue every prompt."""
    from specviz.engine import check_pair

    prompts, chat, tell = (
        [each.prompt for each in plan.items],
        plan.lanes[0].config.chat,
        in_lines(_say),
    )
    specs = dict.fromkeys(lane.spec for lane in plan.lanes)
    return {
        spec: check_pair(spec, tell, present=True, prompts=prompts, chat=chat) for spec in specs
    }


def _kept_runs(
    plan: Plan, checks: dict[PairSpec, PairCheck], options: argparse.Namespace
) -> KeptRuns:
    """Opened, those there are. What is held against a saved comparison is measured now."""
    from specviz.comparison.kept import KeptRuns, Reuse
    from specviz.store import Library

    fresh: Reuse = "restarted" if options.restart else "unfinished"
    kept = KeptRuns(
        plan,
        Library(),
        {spec: each.present for spec, each in checks.items() if each.present},
        title=options.title or " · ".join(plan.labels),
        reuse=fresh if options.restart or options.against else "any",
    )
    while kept.opening:
        kept.open_next()
    total = len(plan.jobs())
    if kept.changed:
        _say(
            "the runs kept from before were made with other models, on another machine or with "
            "other versions; all lanes are measured anew"
        )
    elif kept.runs:
        again = "" if options.restart else "; --restart measures them again"
        _say(f"{len(kept.runs)} of {total} runs are kept from before{again}")
    return kept


def _rest(plan: Plan, checks: dict[PairSpec, PairCheck], kept: KeptRuns) -> Iterator[Measured]:
    done = {run.job.key for run in kept.runs}
    if len(done) == len(plan.jobs()):
        return iter(())
    from specviz.comparison.running import fitting, run_plan
    from specviz.measure.loaded_pairs import KeptPairs

    ordered = fitting(plan, checks)
    if ordered.order == "blocks":
        _say(f"the pairs do not fit into memory together; in this order: {_blocks(ordered)}")
    pairs, tell = KeptPairs(), in_lines(_say)
    return run_plan(ordered, lambda spec: pairs.load(spec, tell), kept.keep, done, tell=tell)


def _blocks(plan: Plan) -> str:
    return ", then ".join(dict.fromkeys(plan.lanes[job.lane].spec.label for job in plan.jobs()))


def _named(plan: Plan, job: Job) -> str:
    kind = plan.items[job.item].kind
    prompt = f"prompt {job.item + 1} of {len(plan.items)}" + (f" ({kind})" if kind else "")
    return f"{plan.labels[job.lane]}, {prompt}, seed {job.config(plan).seed}"


def _rate(run: Measured) -> str:
    rate = run.figures.tokens_per_second
    return "" if rate is None else f", {RATE.bare(rate)} tokens/s"


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)

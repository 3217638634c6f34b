"""``compare``: lanes side by side on the same prompts, kept run by run, and a verdict.

Every finished run is kept in the run library before it is reported, so a comparison that was
killed goes on where it was when the same command is given again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.cli.against import Allowance, check_against
from specviz.cli.compare_table import render_comparison
from specviz.cli.options import check_out, check_pair, config_from, prompt_from
from specviz.cli.painter import one_line, painter_for
from specviz.cli.reading import read_text
from specviz.cli.report import to_json
from specviz.cli.telling import in_lines
from specviz.errors import ConfigError, SpecvizError
from specviz.lanes import Job, Lane, Plan, SuiteItem, parse_lane, preset_suite, read_suite
from specviz.pairing import PairSpec
from specviz.suites import MAX_SUITE_BYTES

if TYPE_CHECKING:
    from specviz.comparing import Comparison, Measured
    from specviz.store import Library

REGRESSION = 1


def command(options: argparse.Namespace) -> int:
    plan = plan_from(options)
    allowance = Allowance.of(options, plan.labels)
    if options.out is not None:
        check_out(options.out)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        comparison = _compared(plan, options)
    from specviz.comparing import comparison_to_json

    record = comparison_to_json(comparison)
    checked = check_against(record, allowance) if allowance else None
    record |= {"against": checked.record} if checked else {}
    if options.out is not None:
        _save(options.out, to_json(record))
    painter = painter_for(sys.stdout, os.environ)
    print(to_json(record) if options.json else render_comparison(painter, comparison, checked))
    return REGRESSION if checked and checked.failed else 0


# What to compare


def plan_from(options: argparse.Namespace) -> Plan:
    """Raises ConfigError for lanes or prompts that cannot be compared; loads no model."""
    check_pair(options, needs_draft=False)
    spec = PairSpec(
        name=options.pair,
        draft=options.draft,
        target=options.target,
        device=options.device,
        dtype=options.dtype,
        step=options.step,
        threads=options.threads,
    )
    default = Lane(spec=spec, config=config_from(options))
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


def _compared(plan: Plan, options: argparse.Namespace) -> Comparison:
    from specviz.comparing import compare

    library = _library()
    key = _key(plan, library, restart=options.restart)
    kept = _kept_runs(library, key, plan)
    total = len(plan.jobs())
    if kept:
        _say(f"{len(kept)} of {total} runs are kept from before; --restart measures them again")
    made = list(kept)
    try:
        for run in _rest(plan, kept, _keeper(plan, library, key, options.title)):
            _check_models(run, made)
            made.append(run)
            _say(f"kept {len(made)} of {total}: {_named(plan, run.job)}{_rate(run)}")
    except KeyboardInterrupt:
        _say(f"{len(made)} of {total} runs are kept; the same command goes on from there")
        raise
    return compare(plan, made)


def _library() -> Library:
    from specviz.store import Library

    return Library()


def _key(plan: Plan, library: Library, *, restart: bool) -> str:
    """Of the latest generation of this comparison; with ``restart``, of a new one."""
    known = {row.key for row in library.comparisons()}
    generations = [plan.key, *(f"{plan.key}.{number}" for number in range(2, len(known) + 2))]
    begun = [key for key in generations if key in known]
    return begun[-1] if begun and not restart else generations[len(begun)]


def _kept_runs(library: Library, key: str, plan: Plan) -> list[Measured]:
    """Those that are whole: one that was stopped on a page is made again."""
    from specviz.comparing import Measured, is_whole

    jobs = {job.key: job for job in plan.jobs()}
    kept = [
        Measured(
            job=jobs[place],
            trace=library.open(run_id),
            memory_bytes=library.row(run_id).memory_bytes,
        )
        for place, run_id in library.comparison_jobs(key).items()
        if place in jobs
    ]
    return [run for run in kept if is_whole(plan, run.trace)]


def _keeper(plan: Plan, library: Library, key: str, title: str) -> Callable[[Measured], None]:
    from specviz.keeping import keep
    from specviz.lanes import plan_to_json

    def keep_run(run: Measured) -> None:
        library.begin_comparison(key, plan_to_json(plan), title or " · ".join(plan.labels))
        keep(
            library,
            run.trace,
            name=plan.labels[run.job.lane],
            comparison=key,
            job=run.job.key,
            memory_bytes=run.memory_bytes,
        )

    return keep_run


def _rest(
    plan: Plan, kept: list[Measured], keep_run: Callable[[Measured], None]
) -> Iterator[Measured]:
    done = {run.job.key for run in kept}
    if len(done) == len(plan.jobs()):
        return iter(())
    from specviz.lab.comparison import fitting, run_plan
    from specviz.lab.kept_pairs import KeptPairs

    ordered = fitting(plan)
    if ordered.order == "blocks":
        _say(f"the pairs do not fit into memory together; in this order: {_blocks(ordered)}")
    pairs, tell = KeptPairs(), in_lines(_say)
    return run_plan(ordered, lambda spec: pairs.load(spec, tell), keep_run, done)


def _check_models(run: Measured, made: list[Measured]) -> None:
    """Kept runs of other weights under the same name are no runs of this lane."""
    for other in made:
        if other.job.lane == run.job.lane and other.trace.pair != run.trace.pair:
            raise SpecvizError(
                "The models of a lane have changed since its first runs were kept.",
                remedy="Add --restart to measure all lanes again.",
            )


def _blocks(plan: Plan) -> str:
    return ", then ".join(dict.fromkeys(plan.lanes[job.lane].spec.label for job in plan.jobs()))


def _named(plan: Plan, job: Job) -> str:
    kind = plan.items[job.item].kind
    prompt = f"prompt {job.item + 1} of {len(plan.items)}" + (f" ({kind})" if kind else "")
    return f"{plan.labels[job.lane]}, {prompt}, seed {job.config(plan).seed}"


def _rate(run: Measured) -> str:
    from specviz.analysis import metrics

    rate = metrics(run.trace, intervals=False).tokens_per_second
    return "" if rate is None else f", {rate:.1f} tokens/s"


def _save(path: Path, text: str) -> None:
    from specviz.store.files import write_file

    try:
        write_file(path, text + "\n")
    except OSError as error:
        raise ConfigError(
            f"--out: {path} cannot be written: {error.strerror}.",
            remedy="Choose another place; the runs are kept.",
        ) from None
    _say(f"saved {path}")


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)

"""``winrate``: measure how often texts of lossy rules win against lossless texts.

Every finished run is saved in the run library, so a repeated command continues where the previous
command stopped. A scorer decides which of two texts is better. A command with another scorer scores
the stored texts without decoding them again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, cast

from specviz.cli.makers import maker_for
from specviz.cli.option_values import (
    check_pair,
    config_from,
    items_from,
    spec_from,
    with_chat,
)
from specviz.cli.progress_lines import say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph, table
from specviz.errors import ConfigError
from specviz.record.numbers import time_text
from specviz.record.prompts import preset_suite
from specviz.store.text_files import read_text

if TYPE_CHECKING:
    from specviz.quality.experiment import Experiment
    from specviz.quality.quality_job import QualityJob, Scoring
    from specviz.quality.report import QualityReport

_LONGEST_PROMPT = 100_000  # bytes of --judge-prompt
_MOST_PAIRS = 100
_QUIET = 5.0  # seconds between two lines on the progress of scoring


def command(options: argparse.Namespace) -> int:
    from specviz.quality.report import report_to_json

    experiment, scoring = _experiment(options), _scoring(options)
    _count_requests(experiment, scoring, confirmed=options.confirm)
    say(f"{experiment.size_words}, each of at most {experiment.config.max_new_tokens} tokens")
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        job = _run(experiment, scoring, options)
    assert job.report is not None, "a job without an error has a report"
    if options.json:
        made = report_to_json(job.report, experiment, job.measured, job.run_ids, job.scores)
        print(to_json(made))
    else:
        print(render_report(painter_for(sys.stdout, os.environ), job.report))
    return 0


def _experiment(options: argparse.Namespace) -> Experiment:
    from specviz.quality.experiment import LOSSY_RULES, Experiment, LossyRule

    check_pair(options, needs_draft=False)
    config = with_chat(config_from(options), options)
    rules = [each.strip() for each in options.rules.split(",")]
    if not set(rules) <= set(LOSSY_RULES) or len(set(rules)) < len(rules):
        raise ConfigError(
            f"--rules is {options.rules!r}.",
            remedy=f"Give lossy rules, each once: {','.join(LOSSY_RULES)}.",
        )
    return Experiment(
        spec=spec_from(options),
        config=config,
        items=items_from(options) or preset_suite(),
        epsilons=_numbers(options.epsilons),
        rules=tuple(cast("LossyRule", each) for each in rules),
        texts=options.texts,
    )


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--epsilons is {text!r}.", remedy="Give numbers, such as 0.05,0.1,0.2."
        ) from None


def _scoring(options: argparse.Namespace) -> Scoring:
    from specviz.quality.judge import PROMPT
    from specviz.quality.quality_job import Scoring
    from specviz.quality.scorers import scorer_named

    measure, name = scorer_named(options.scorer)
    if measure != "judge" and (options.judge_prompt is not None or options.confirm):
        raise ConfigError(
            "--judge-prompt and --confirm need a judge.", remedy="Add --scorer judge:ADDRESS."
        )
    if not 1 <= options.judged_pairs <= _MOST_PAIRS:
        raise ConfigError(
            f"--judged-pairs is {options.judged_pairs}.",
            remedy=f"Give a number from 1 to {_MOST_PAIRS}.",
        )
    prompt = PROMPT
    if options.judge_prompt is not None:
        prompt = read_text(options.judge_prompt, "--judge-prompt", _LONGEST_PROMPT)
    return Scoring(
        measure=measure,
        name=name,
        judge_prompt=prompt,
        judged_pairs=options.judged_pairs,
        allow_remote=options.allow_remote,
    )


def _count_requests(experiment: Experiment, scoring: Scoring, *, confirmed: bool) -> None:
    """Raise ConfigError with the number of requests to a judge model, unless ``confirmed``."""
    if scoring.measure != "judge" or confirmed:
        return
    from specviz.quality.quality_job import most_requests

    requests = most_requests(experiment, scoring.judged_pairs)
    raise ConfigError(
        f"The judge at {scoring.name} would get up to {requests:,} requests, each with a prompt "
        "and two texts.",
        remedy="Add --confirm to send them, or give fewer --judged-pairs, prompts or --epsilons.",
    )


def _run(experiment: Experiment, scoring: Scoring, options: argparse.Namespace) -> QualityJob:
    from specviz.quality.quality_job import QualityJob
    from specviz.store import Library

    with maker_for(options, say, timed=True) as maker:
        job = QualityJob(
            experiment, scoring, maker, Library(),
            reuse="restarted" if options.restart else "any", must_keep=True,
        )  # fmt: skip
        job.prepare()
        _make_runs(job)
        _score(job)
        return job


def _make_runs(job: QualityJob) -> None:
    _, total = job.progress
    if job.found:
        say(f"{job.found} of {total} texts are stored already; --restart makes them again")
    texts, began = job.experiment.texts, time.monotonic()
    try:
        for run in job.make_missing():
            done = job.progress[0]
            label, at = job.plan.labels[run.job.lane], run.job
            where = f"{label}, prompt {at.item + 1}, text {at.repeat + 1} of {texts}"
            left = (time.monotonic() - began) / (done - job.found) * (total - done)
            say(f"text {done} of {total} ({time_text(left)} left): {where}")
    except KeyboardInterrupt:
        say(f"saved {job.progress[0]} of {total} texts; the same command continues from there")
        raise


def _score(job: QualityJob) -> None:
    of_a_judge = job.scoring.measure == "judge"
    units = "pairs" if of_a_judge else "texts"
    say(f"scoring {len(job.measured)} texts")
    said = time.monotonic()
    try:
        for done, total in job.score():
            if time.monotonic() - said >= _QUIET:
                said = time.monotonic()
                say(f"scored {done} of {total} {units}")
    except KeyboardInterrupt:
        kept = "texts and replies" if of_a_judge else "texts"
        say(f"the {kept} so far are saved; the same command continues from there")
        raise


def render_report(painter: Painter, report: QualityReport) -> str:
    from specviz.quality.report import table_rows
    from specviz.quality.sentences import sentences

    said = "\n".join(paragraph(painter, each) for each in sentences(report))
    columns = [list(each) for each in zip(*table_rows(report), strict=True)]
    return f"{table(painter, columns)}\n\n{said}"

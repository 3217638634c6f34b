"""``train``: train a draft on texts that the target writes, or state what that would cost."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specviz.cli.interrupts import stop_on_interrupt
from specviz.cli.option_values import check_names, spec_from
from specviz.cli.progress_lines import at_intervals, progress_in_lines, say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, one_line, painter_for, paragraph, table
from specviz.errors import ConfigError
from specviz.measure.run_makers import InProcessMaker
from specviz.record.numbers import COST, PROBABILITY, RATIO, TOKENS, WHOLE_PERCENT
from specviz.record.prompts import MAX_SUITE_BYTES, preset_suite, read_suite
from specviz.store.text_files import read_text
from specviz.training.drafts.estimate import Estimate, estimate, long_time, measured_arithmetic
from specviz.training.drafts.export import Exported, export
from specviz.training.drafts.kept_trainings import kept_training
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.training.drafts.progress import TextFigures, Trained
from specviz.training.drafts.training_job import DraftWork, TrainingJob
from specviz.training.drafts.worth import MORE

INTERRUPTED = 130


def command(options: argparse.Namespace) -> int:
    check_names(options)
    plan, spec = _plan(options), spec_from(options)
    if spec.served:
        raise ConfigError(
            "--target is an address.", remedy="Give the target's folder, file or Hub id."
        )
    painter = painter_for(sys.stdout, os.environ)
    if options.estimate:
        with contextlib.redirect_stdout(sys.stderr):  # libraries may print
            found = _estimate(plan, options)
        print(to_json(_cost_values(found)) if options.json else paragraph(painter, _cost(found)))
        return 0
    if options.out is None or not options.out.strip():
        raise ConfigError("Training needs a folder.", remedy="Give one with --out.")
    if options.export is not None and (Path(options.out) / "draft").is_dir():
        return _only_export(painter, options)
    work = DraftWork(plan=plan, spec=spec, folder=os.path.abspath(options.out))
    with contextlib.redirect_stdout(sys.stderr):
        job = _train(work)
    if job.error is not None:
        raise job.error
    if job.result is None:
        say(_paused(job))
        return INTERRUPTED
    exported = None
    if options.export is not None:
        exported = _export(job.result.folder, spec.target_place, options)
    if options.json:
        print(to_json(_values(job) | {"export": _export_values(exported)}))
    else:
        print("\n".join((*_lines(painter, job), *_export_lines(painter, exported))))
    return 0


def _only_export(painter: Painter, options: argparse.Namespace) -> int:
    """Export the draft of a finished training.

    The draft is exported for --target or, by default, for the target that it was trained on.
    """
    target = spec_from(options).target_place if options.target else ""
    exported = _export(Path(options.out, "draft"), target, options)
    if options.json:
        print(to_json({"export": _export_values(exported)}))
    else:
        print("\n".join(_export_lines(painter, exported)))
    return 0


def _export(draft: str | Path, target: str, options: argparse.Namespace) -> Exported:
    return export(Path(draft), options.export, Path(options.out, "export"), target=target)


def _export_values(exported: Exported | None) -> dict[str, str] | None:
    if exported is None:
        return None
    command = exported.command
    return {"folder": str(exported.folder), "engine": command.engine, "command": command.text}


def _export_lines(painter: Painter, exported: Exported | None) -> Iterator[str]:
    if exported is not None:
        yield paragraph(painter, f"Exported to {one_line(str(exported.folder))}.")
        yield f"{exported.command.engine}: {one_line(exported.command.text)}"


def _plan(options: argparse.Namespace) -> TrainingPlan:
    texts = TextPlan(
        count=options.texts,
        longest=options.longest,
        turns=options.turns,
        together=options.together,
        seed=options.seed,
        prompts=_prompts(options),
        task_share=_task_share(options),
    )
    return TrainingPlan(
        kind=options.kind,
        texts=texts,
        vocabulary=options.vocabulary,
        positions=options.positions,
        layers=options.layers,
        steps=options.steps,
        batch=options.batch,
        length=options.length,
        rate=options.rate,
        seed=options.seed,
    )


def _task_share(options: argparse.Namespace) -> float:
    if options.task_share is not None:
        return options.task_share
    kept = kept_training(Path(options.out)) if options.out else None
    return kept.plan.texts.task_share if kept is not None else TextPlan().task_share


def _prompts(options: argparse.Namespace) -> tuple[str, ...]:
    if options.presets:
        return tuple(each.prompt for each in preset_suite())
    if options.suite is None:
        return ()
    text = read_text(options.suite, "--suite", MAX_SUITE_BYTES)
    return tuple(each.prompt for each in read_suite(text, str(options.suite)))


def _estimate(plan: TrainingPlan, options: argparse.Namespace) -> Estimate:
    from specviz.engine import body_room

    found = estimate(plan, body_room(spec_from(options)), measured_arithmetic())
    if found is None:
        raise ConfigError(
            "The shape of this target is not known.",
            remedy="Choose a Llama, Mistral, Qwen2 or Qwen3 model.",
        )
    return found


def _train(work: DraftWork) -> TrainingJob:
    job = TrainingJob(work, InProcessMaker(progress_in_lines(say)))
    job.on_value = _reporter(job)
    with stop_on_interrupt(job):
        job.carry_out()
    return job


def _reporter(job: TrainingJob) -> Callable[[object], None]:
    """Return a function that prints results at once, and progress at most every few seconds."""
    sometimes, stage = at_intervals(say), ""

    def report(value: object) -> None:
        nonlocal stage
        if isinstance(value, Estimate):
            say(_cost(value))
        elif isinstance(value, TextFigures):
            say(_texts(value))
        elif isinstance(value, Trained) and value.accepted:
            say(_checked(job, value))
        elif job.stage:
            (say if job.stage != stage else sometimes)(_doing(job))
            stage = job.stage

    return report


def _doing(job: TrainingJob) -> str:
    done, planned = job.progress
    left = job.seconds_left
    ahead = "" if left is None else f", about {long_time(left)} left"
    return f"{job.stage}: {done:,} of {planned:,}{ahead}"


def _texts(figures: TextFigures) -> str:
    fresh = (
        ""
        if figures.stored
        else "; the hidden states do not fit on the disk, so every step recomputes them"
    )
    return (
        f"{figures.texts:,} texts with {figures.tokens:,} tokens of the target; "
        f"{WHOLE_PERCENT.shown(figures.ended)} ended by themselves, "
        f"{WHOLE_PERCENT.shown(figures.repetition)} of the 4-grams are repetitions, the draft can "
        f"propose {WHOLE_PERCENT.shown(figures.covered)} of the tokens{fresh}"
    )


def _checked(job: TrainingJob, row: Trained) -> str:
    found = job.worth_of(row)
    gain = "" if found is None else f"; expected speedup {RATIO.shown(found.best.speedup)}"
    return f"step {row.step:,}: acceptance {_positions(row.accepted)}{gain}"


def _paused(job: TrainingJob) -> str:
    return (
        f"paused at step {job.curves.step:,}; everything is saved in {job.work.folder}. "
        "Repeat the command to continue."
    )


def _positions(accepted: tuple[float, ...]) -> str:
    return "  ".join(PROBABILITY.shown(each) for each in accepted)


def _cost(found: Estimate) -> str:
    return f"predicted: {found.words}"


def _cost_values(found: Estimate) -> dict[str, Any]:
    return asdict(found) | {"seconds": found.seconds, "predicted": True}


def _values(job: TrainingJob) -> dict[str, Any]:
    assert job.result is not None
    found = job.best_worth
    return {
        "target": job.spec.target_place,
        "plan": asdict(job.work.plan),
        "texts": None if job.figures is None else asdict(job.figures),
        "draft": asdict(job.result),
        "costs": None if job.costs is None else asdict(job.costs) | {"c_is_predicted": True},
        "expected": [] if found is None else [asdict(each) for each in found.gains],
        "best_gamma": None if found is None else found.best.gamma,
        "gain_of_more_training": job.gain_of_more,
    }


def _lines(painter: Painter, job: TrainingJob) -> Iterator[str]:
    result, found = job.result, job.best_worth
    assert result is not None
    yield paragraph(
        painter, f"The best draft, of step {result.step:,}: {one_line(result.folder)}", "bold"
    )
    if job.figures is not None:
        yield paragraph(painter, f"{_texts(job.figures)}.")
    yield ""
    positions = [str(each + 1) for each in range(len(result.accepted))]
    yield table(
        painter,
        [
            ["acceptance on held-out texts, position", *positions],
            ["temperature 1", *map(PROBABILITY.shown, result.accepted)],
            ["temperature 0", *map(PROBABILITY.shown, result.agreeing)],
        ],
    )
    if found is None or job.costs is None:
        return
    yield ""
    yield table(
        painter,
        [
            ["γ", *(str(each.gamma) for each in found.gains)],
            ["tokens per round", *(TOKENS.shown(each.tokens) for each in found.gains)],
            ["speedup, expected", *(_speedup(each.speedup, each.assumed) for each in found.gains)],
            ["break-even at", *(PROBABILITY.shown(each.break_even) for each in found.gains)],
        ],
    )
    yield ""
    yield paragraph(painter, _basis(job), "dim")
    if (more := job.gain_of_more) is not None:
        yield paragraph(
            painter,
            f"{MORE:g} times as much training: about +{RATIO.shown(more)} speedup, extrapolated "
            "from how acceptance grew with the number of training tokens.",
        )
    yield paragraph(painter, f"Try it: python -m specviz run … {_options_of(job)}")


def _speedup(value: float, assumed: bool) -> str:
    return f"{RATIO.shown(value)}{' *' if assumed else ''}"


def _basis(job: TrainingJob) -> str:
    assert job.costs is not None
    verified = "measured" if job.costs.measured else "assumed to equal the cost of one step"
    return (
        f"Expected at temperature 1, from the acceptance above, c {COST.shown(job.costs.c)} "
        f"(predicted from the bytes of a step), and the cost of verification ({verified}). "
        "*: assumes that positions beyond the trained ones have the acceptance of the last trained "
        "position."
    )


def _options_of(job: TrainingJob) -> str:
    assert job.result is not None
    return one_line(f"--target {job.spec.target_place} --draft {job.result.folder}")

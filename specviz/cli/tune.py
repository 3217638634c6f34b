"""``tune``: find the best γ and draft for given texts, and whether speculation pays off."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Never

from specviz.cli.makers import maker_for
from specviz.cli.option_values import (
    check_budget,
    check_names,
    check_pair,
    config_from,
    items_from,
    named_lane,
    spec_from,
    with_chat,
)
from specviz.cli.progress_lines import say
from specviz.cli.report import to_json
from specviz.cli.scoring_maker import scorer_for
from specviz.cli.terminal_text import Painter, painter_for, paragraph, table
from specviz.comparison.plan import Lane, Plan, preset_suite
from specviz.errors import ConfigError
from specviz.figures.speedup_words import is_too_wide, shown_speedup
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.local_models.naming import draft_place_of
from specviz.record.numbers import RATIO
from specviz.record.trace import StepCosts
from specviz.store.text_files import read_text
from specviz.tune.advice import (
    advice,
    basis_text,
    memory_text,
    reason,
    speedup_text,
    unranked_text,
)
from specviz.tune.answer import Answer
from specviz.tune.given_costs import given_costs, read_verify_costs
from specviz.tune.measuring import Choice, MeasuredCell, best_cells, off_by
from specviz.tune.question import Question, enough_continuations, with_draft
from specviz.tune.to_json import answer_to_json

if TYPE_CHECKING:
    from specviz.measure.run_makers import RunMaker

_MOST_VERIFY_BYTES = 100_000


def command(options: argparse.Namespace) -> int:
    question, given = _question(options), _given(options)
    check_budget(options)
    cells = _cells(options, question)
    _refuse_served(options, question)
    if options.measure:
        _check_measuring(options, question, cells, given)
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        with scorer_for(question.lanes, options) as scorer:
            answer = _find_answer(question, given, scorer)
        measured = _measure_cells(answer, cells, options) if options.measure else ()
    if options.json:
        print(to_json(answer_to_json(answer, measured)))
    else:
        print(
            render_tune(
                painter_for(sys.stdout, os.environ), answer, measured, given=given is not None
            )
        )
    return 0


def _refuse_served(options: argparse.Namespace, question: Question) -> None:
    if not any(each.spec.served for each in question.lanes):
        return
    if options.measure:
        raise ConfigError(
            "--measure needs locally loaded models, but a model is an address.",
            remedy="Remove --measure; `attach --baseline` measures a server.",
        )
    if options.on is not None:
        raise ConfigError(
            "--on needs locally loaded models, but a model is an address.",
            remedy="Remove --on.",
        )


def _check_measuring(
    options: argparse.Namespace,
    question: Question,
    cells: Sequence[tuple[int, float]],
    given: StepCosts | None,
) -> None:
    """Raise ConfigError, before texts are scored, if --measure could not measure the result."""
    lanes = question.lanes[:1] * max(len(cells), len(question.temperatures))
    Plan(lanes=lanes, items=question.items, repeats=options.repeats)
    if given is not None:
        raise ConfigError(
            "--measure measures this machine, but costs of another machine are given.",
            remedy="Remove --measure, or the costs: --c, --v and --verify-costs.",
        )


# The question


def _question(options: argparse.Namespace) -> Question:
    lanes = _candidates(options)
    config, items = lanes[0].config, items_from(options) or preset_suite()
    return Question(
        lanes=lanes,
        items=items,
        continuations=enough_continuations(items),
        text_budget=options.text_budget,
        temperatures=_temperatures(options.temperatures, config.temperature),
    )


def _candidates(options: argparse.Namespace) -> tuple[Lane, ...]:
    """Return the named pair, then its target with each further draft, then each --candidate."""
    check_names(options)
    drafts: list[str] = options.draft
    one = argparse.Namespace(**{**vars(options), "draft": None})
    if options.target is not None and drafts:
        one.draft = drafts[0]
    check_pair(one, needs_draft=False)
    default = Lane(spec=spec_from(one), config=with_chat(config_from(one), one))
    target = default.spec.target_place
    further = drafts[1:] if options.target is not None else drafts
    lanes = [default, *(with_draft(default, draft_place_of(each), target) for each in further)]
    return (*lanes, *(named_lane(text, default) for text in options.candidate))


def _temperatures(typed: str, requested: float) -> tuple[float, ...]:
    """Return, sorted, the temperatures in ``typed`` and the temperature ``requested``."""
    try:
        listed = [float(each) for each in typed.split(",") if each.strip()]
    except ValueError:
        raise ConfigError(
            f"--temperatures is {typed[:60]!r}.", remedy="Write it like 0,0.4,0.7,1."
        ) from None
    return tuple(sorted({*listed, requested}))


def _given(options: argparse.Namespace) -> StepCosts | None:
    if options.c is None and options.v is None and options.verify_costs is None:
        return None
    if options.c is None or (options.v is None) == (options.verify_costs is None):
        raise ConfigError(
            "Costs need both values: for a draft step and for verification.",
            remedy="Give --c, and either --v or --verify-costs.",
        )
    if options.v is not None:
        return given_costs(options.c, options.v)
    text = read_text(options.verify_costs, "--verify-costs", _MOST_VERIFY_BYTES)
    return given_costs(options.c, read_verify_costs(text, str(options.verify_costs)))


def _cells(options: argparse.Namespace, question: Question) -> tuple[tuple[int, float], ...]:
    if options.cells is None:
        return ()
    if not options.measure:
        raise ConfigError("--cells needs --measure.", remedy="Add --measure, or remove --cells.")
    try:
        parts = [part.split(":") for part in options.cells.split(",")]
        cells = tuple((int(gamma), float(temperature)) for gamma, temperature in parts)
    except ValueError:
        raise ConfigError(
            f"--cells is {options.cells[:60]!r}.", remedy="Write it like 2:0.7,4:0.7."
        ) from None
    for gamma, temperature in cells:
        if gamma not in question.gammas or temperature not in question.temperatures:
            _refuse_cell(gamma, temperature, question.gammas)
    return cells


def _refuse_cell(gamma: int, temperature: float, gammas: Sequence[int]) -> Never:
    raise ConfigError(
        f"The surface has no cell {gamma}:{temperature:g}.",
        remedy=f"Choose a γ from {gammas[0]} to {gammas[-1]}, and one of --temperatures.",
    )


# The answer


def _find_answer(question: Question, given: StepCosts | None, scorer: RunMaker) -> Answer:
    from specviz.tune.tune_job import TuneJob

    job = TuneJob(question, scorer, given=given)
    job.carry_out()
    if job.error is not None:
        raise job.error
    return job.answer


def _measure_cells(
    answer: Answer,
    cells: Sequence[tuple[int, float]],
    options: argparse.Namespace,
) -> tuple[MeasuredCell, ...]:
    from specviz.store import Library
    from specviz.tune.confirming import CellsJob, RaceJob

    items, races = answer.question.items, len(answer.ranked) > 1 and not cells
    choices = _chosen(answer, cells) if cells else best_cells(answer)
    if not choices:
        return ()
    with maker_for(options, say, timed=True) as maker:
        if races:
            job = RaceJob(answer.ranked[:3], items, maker, Library())
        else:
            job = CellsJob(choices, items, maker, Library(), repeats=options.repeats)
        job.carry_out()
    if job.error is not None:
        raise job.error
    return job.cells


def _chosen(answer: Answer, cells: Sequence[tuple[int, float]]) -> tuple[Choice, ...]:
    if answer.best is None:
        return ()
    first, found = answer.best[0], list[Choice]()
    for gamma, temperature in cells:
        cell = first.surface.cell(gamma, temperature)
        if cell is None:
            # No text is long enough for this γ.
            _refuse_cell(gamma, temperature, first.surface.gammas)
        found.append((first, cell))
    return tuple(found)


# In the terminal


def render_tune(
    painter: Painter, answer: Answer, measured: Sequence[MeasuredCell] = (), *, given: bool = False
) -> str:
    blocks = [paragraph(painter, advice(answer)), *_surface(painter, answer)]
    blocks[:0] = [paragraph(painter, each) for each in answer.doubts]
    if not given and (warning := _costs_warning(answer)):
        blocks.append(paragraph(painter, warning))
    if len(answer.candidates) > 1:
        blocks.append(_ranking(painter, answer))
    if unknown := unranked_text(answer):
        blocks.append(paragraph(painter, unknown))
    if measured:
        blocks.append(_measurements(painter, measured))
    return "\n\n".join([*blocks, paragraph(painter, _basis(answer, given=given))])


def _costs_warning(answer: Answer) -> str:
    """Return a warning if the step costs at the requested temperature are unreliable."""
    tables = [each.costs.get(answer.temperature) for each in answer.candidates]
    return next((text for each in tables if (text := step_cost_warning(each))), "")


def _basis(answer: Answer, *, given: bool) -> str:
    scored = answer.candidates[0].at(answer.temperature) if answer.candidates else []
    texts = len(scored) or len(answer.question.items)
    served = any(each.spec.served for each in answer.question.lanes)
    if served and not given:
        return (
            f"Tokens per round, expected along {texts} text{'s' * (texts != 1)} that the target "
            "wrote at each temperature. Serving engines do not report step costs; give --c and "
            "--v for speedups."
        )
    runs = (
        " Speedups that cannot be computed were measured in short runs on the same prompts."
        if any(each.runs for each in answer.candidates)
        else ""
    )
    costs = "the given costs" if given else "the step costs of this machine"
    star = f" ★: the best at temperature {answer.temperature:g}." if _has_map(answer) else ""
    return (
        f"Speedup over the target alone, expected along {texts} text{'s' * (texts != 1)} that the "
        f"target wrote at each temperature, with {costs}.{star} The 95 % intervals cover the "
        f"variation over texts{'' if given else ' and the errors of the step costs'}.{runs}"
    )


def _surface(painter: Painter, answer: Answer) -> list[str]:
    """Render the speedups of the best candidate: a row per γ, a column per temperature."""
    if answer.best is None or not _has_map(answer):
        return []
    found, best = answer.best[0].surface, answer.best[1]
    columns = [["γ", *(str(each) for each in found.gammas)]]
    for temperature in found.temperatures:
        own = [found.cell(gamma, temperature) for gamma in found.gammas]
        marks = ["" if each is None else RATIO.shown(each.speedup) for each in own]
        marked = [
            f"{text} ★" if each is not None and each == best else text
            for text, each in zip(marks, own, strict=True)
        ]
        columns.append([f"T {temperature:g}", *marked])
    return [table(painter, columns)]


def _has_map(answer: Answer) -> bool:
    """Return whether the best speedup is precise enough for a table of γ and temperatures."""
    return answer.best is not None and not is_too_wide(answer.best[1].low, answer.best[1].high)


def _ranking(painter: Painter, answer: Answer) -> str:
    rows = answer.ranked
    return table(
        painter,
        [
            ["candidate", *(each.label for each, _ in rows)],
            ["γ", *(str(cell.gamma) for _, cell in rows)],
            ["speedup", *(speedup_text(cell) for _, cell in rows)],
            ["how", *(basis_text(each, cell) for each, cell in rows)],
            ["memory", *(memory_text(each) for each, _ in rows)],
            ["why", *(reason(each, cell) for each, cell in rows)],
        ],
    )


def _measurements(painter: Painter, measured: Sequence[MeasuredCell]) -> str:
    return table(
        painter,
        [
            ["measured", *(f"γ {each.gamma}, T {each.temperature:g}" for each in measured)],
            ["candidate", *(each.label for each in measured)],
            ["runs", *(str(each.count) for each in measured)],
            ["speedup", *(shown_speedup(e.speedup, e.low, e.high) for e in measured)],
            ["expected", *(RATIO.shown(each.expected) for each in measured)],
            ["off by", *(off_by(each) for each in measured)],
        ],
    )

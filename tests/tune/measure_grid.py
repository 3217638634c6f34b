"""Compare expected with measured speedups: ``python -m tests.tune.measure_grid [BODY]``.

Needs a quiet machine. Sixteen cells (four γ at four temperatures) of the embedded pair, with a body
of the target if given, such as 90M, are first expected, then measured on four prompts of three
kinds. Prints every cell, the errors, and for each kind of text the share of the best measured
speedup that the advised γ reached. Step costs come from the data folder, or are measured first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from statistics import fmean, median

from specviz.comparison.lane_run import LaneRun
from specviz.comparison.plan import Lane
from specviz.measure.run_makers import InProcessMaker
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem, preset_suite
from specviz.record.trace import RunConfig
from specviz.tune.answer import Answer
from specviz.tune.confirming import CellsJob
from specviz.tune.measuring import Choice
from specviz.tune.question import Question
from specviz.tune.surface import surface
from specviz.tune.tune_job import TuneJob

GAMMAS = (1, 2, 4, 6)
TEMPERATURES = (0.0, 0.4, 0.7, 1.0)
KINDS = ("story", "dialogue", "list")
PROMPTS = 4  # of each kind
SECONDS = 1.5  # of timing, for a run


def main(body: str = "none") -> None:
    spec = PairSpec(threads=1, target_body=body)
    config = RunConfig(ignore_eos=True, max_new_tokens=128)
    question = Question(
        lanes=(Lane(spec=spec, config=config),),
        items=tuple(_items()),
        temperatures=TEMPERATURES,
        gammas=GAMMAS,
    )
    maker = InProcessMaker(lambda _progress: None, budget=SECONDS)
    job = TuneJob(question, maker)
    job.carry_out()
    assert job.error is None, job.error
    answer = job.answer
    (candidate,) = answer.candidates
    choices: list[Choice] = [(candidate, each) for each in candidate.surface.cells]
    measuring = CellsJob(choices, question.items, maker, None)
    measuring.carry_out()
    assert measuring.error is None, measuring.error
    _print_cells(measuring)
    _print_kinds(answer, measuring)


def _items() -> Iterator[SuiteItem]:
    for kind in KINDS:
        yield from [each for each in preset_suite() if each.kind == kind][:PROMPTS]


def _print_cells(job: CellsJob) -> None:
    for each in job.cells:
        print(
            f"γ {each.gamma} T {each.temperature:g}: expected {each.expected:.2f}, measured "
            f"{each.speedup:.2f} ({each.low:.2f} to {each.high:.2f}), off by {each.error:+.1%}"
        )
    errors = [abs(each.error) for each in job.cells if each.error is not None]
    print(f"median absolute error of {len(errors)} cells: {median(errors):.1%}")


def _print_kinds(answer: Answer, job: CellsJob) -> None:
    """Print how well the γ advised for each kind, from its texts alone, performed."""
    (candidate,) = answer.candidates
    for kind in KINDS:
        texts = [each for each in candidate.texts if each.prompt.kind == kind]
        own = surface(texts, candidate.costs.get, GAMMAS)
        shares = list[float]()
        for temperature in TEMPERATURES:
            advised = own.best_at(temperature)
            assert advised is not None
            speeds = {gamma: _speed(job, kind, gamma, temperature) for gamma in GAMMAS}
            shares.append(speeds[advised.gamma] / max(speeds.values()))
        output = ", ".join(f"{each:.3f}" for each in shares)
        print(f"{kind}: the advised γ reached {output} of the best measured, by temperature")


def _speed(job: CellsJob, kind: str, gamma: int, temperature: float) -> float:
    runs: list[LaneRun] = [
        each
        for each in job.measured
        if job.plan.items[each.job.item].kind == kind
        and (each.trace.config.gamma, each.trace.config.temperature) == (gamma, temperature)
    ]
    return math.exp(fmean(math.log(each.figures.speedup_observed or math.nan) for each in runs))


if __name__ == "__main__":
    main(*sys.argv[1:])

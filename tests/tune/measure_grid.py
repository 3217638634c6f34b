"""Expected against measured speedup: ``python -m tests.tune.measure_grid [BODY]``, quiet machine.

Sixteen cells, four γ at four temperatures, of the embedded pair (with a body of the target, such as
90M, where one is named): first expected, then measured on four prompts of three kinds. Printed are
every cell, how far expectation and measurement are apart, and, for each kind of text, what the γ
that was advised reached of the best that was measured. Step costs come from the data folder: in a
new one they are measured first.
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
    work = TuneJob(question, maker)
    work.carry_out()
    assert work.error is None, work.error
    answer = work.answer
    (candidate,) = answer.candidates
    choices: list[Choice] = [(candidate, each) for each in candidate.surface.cells]
    measuring = CellsJob(choices, question.items, maker, None)
    measuring.carry_out()
    assert measuring.error is None, measuring.error
    _tell_cells(measuring)
    _tell_kinds(answer, measuring)


def _items() -> Iterator[SuiteItem]:
    for kind in KINDS:
        yield from [each for each in preset_suite() if each.kind == kind][:PROMPTS]


def _tell_cells(work: CellsJob) -> None:
    for each in work.cells:
        print(
            f"γ {each.gamma} T {each.temperature:g}: expected {each.expected:.2f}, measured "
            f"{each.speedup:.2f} ({each.low:.2f} to {each.high:.2f}), off by {each.error:+.1%}"
        )
    errors = [abs(each.error) for each in work.cells if each.error is not None]
    print(f"median absolute error of {len(errors)} cells: {median(errors):.1%}")


def _tell_kinds(answer: Answer, work: CellsJob) -> None:
    """The γ advised for a kind is that of the surface of its texts alone."""
    (candidate,) = answer.candidates
    for kind in KINDS:
        texts = [each for each in candidate.texts if each.prompt.kind == kind]
        own = surface(texts, candidate.costs.get, GAMMAS)
        shares = list[float]()
        for temperature in TEMPERATURES:
            advised = own.best_at(temperature)
            assert advised is not None
            speeds = {gamma: _speed(work, kind, gamma, temperature) for gamma in GAMMAS}
            shares.append(speeds[advised.gamma] / max(speeds.values()))
        told = ", ".join(f"{each:.3f}" for each in shares)
        print(f"{kind}: the advised γ reached {told} of the best measured, by temperature")


def _speed(work: CellsJob, kind: str, gamma: int, temperature: float) -> float:
    runs: list[LaneRun] = [
        each
        for each in work.measured
        if work.plan.items[each.job.item].kind == kind
        and (each.trace.config.gamma, each.trace.config.temperature) == (gamma, temperature)
    ]
    return math.exp(fmean(math.log(each.figures.speedup_observed or math.nan) for each in runs))


if __name__ == "__main__":
    main(*sys.argv[1:])

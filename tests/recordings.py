"""Record the results that pages show before the first one of the user: `make recordings`.

They are made with the program's own commands. The machine should be quiet, because the recordings
show its measurements.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from specviz.comparison.plan import Lane, parse_lane
from specviz.measure.run_makers import InProcessMaker
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem, read_presets
from specviz.record.run_config import RunConfig
from specviz.tune.question import Question, enough_continuations
from specviz.tune.recorded_answer import answer_to_record
from specviz.tune.tune_job import TuneJob

ASSETS = Path(__file__).parents[1] / "assets"
SIZE = "90M"  # of the simulated target
_EARLIER_RUNS = 3  # in other processes: their step costs explain the recorded run


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        for seed in range(_EARLIER_RUNS, -1, -1):
            table = ["--measure-costs"] if seed == _EARLIER_RUNS else []
            _specviz(home, "run", read_presets()[0].text, "--target-body", SIZE, "--seed",
                     str(seed), "--no-keep", "--out", str(ASSETS / "first_trace.json"),
                     *table)  # fmt: skip
        _record_answer(home)


def _record_answer(home: str) -> None:
    """Record Tune's answer for the pair of the recorded run, with prompt lookup beside it."""
    os.environ |= {"SPECVIZ_HOME": home, "OMP_NUM_THREADS": "1"}
    config = RunConfig(max_new_tokens=128)
    first = Lane(spec=PairSpec(target_body=SIZE, threads=1), config=config)
    items = (SuiteItem(prompt=read_presets()[0].text, kind=read_presets()[0].kind),)
    question = Question(
        lanes=(first, parse_lane("drafter=prompt-lookup", first)),
        items=items,
        continuations=enough_continuations(items),
    )
    job = TuneJob(question, InProcessMaker(print))
    job.carry_out()
    assert job.error is None
    (ASSETS / "recorded_answer.json").write_text(answer_to_record(job.answer), encoding="utf-8")


def _specviz(home: str, *arguments: str) -> None:
    environment = {**os.environ, "SPECVIZ_HOME": home, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "specviz", *arguments], env=environment, check=True)


if __name__ == "__main__":
    main()

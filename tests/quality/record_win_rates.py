"""Measure the win rates that the page shows before its first own experiment.

``python -m tests.quality.record_win_rates`` writes ``assets/recorded_win_rates.json``, with the
embedded pair and one thread, in about five minutes. The prompts are the presets and twelve more.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from specviz.measure.run_makers import InProcessMaker
from specviz.quality.experiment import Experiment
from specviz.quality.quality_job import QualityJob, Scoring
from specviz.quality.sentences import sentences
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem, preset_suite
from specviz.record.run_config import RunConfig
from specviz.store import Library
from specviz.store.files import to_json
from specviz.ui.theory.bias.quality import RECORDED

OPENINGS = (
    "The frog wanted to see the moon, so",
    "Every morning the baker gave one roll to",
    "It was raining, and the small boat",
    "Anna found a key under the old tree.",
    "The bear could not sleep because",
    "Grandpa knew a mountain where",
    "There was a shy dragon who lived",
    "On her birthday, Mia got a box that",
    "The train was late again. Tom",
    "Two ducks met a goose near the bridge.",
    "The king had lost his favourite",
    "When the lights went out, the children",
)


def main() -> None:
    openings = tuple(SuiteItem(prompt=each, kind="opening") for each in OPENINGS)
    experiment = Experiment(
        spec=PairSpec(threads=1),
        config=RunConfig(temperature=1.0, max_new_tokens=48),
        items=(*preset_suite(), *openings),
    )
    maker = InProcessMaker(lambda _: None, costs=False)
    job = QualityJob(experiment, Scoring(), maker, Library(), must_keep=True)
    job.prepare()
    for _ in job.make_missing():
        print(*job.progress, end="\r", file=sys.stderr)
    for _ in job.score():
        print(*job.scored, end="\r", file=sys.stderr)
    report = job.report
    assert report is not None
    RECORDED.write_text(to_json(asdict(report)) + "\n", encoding="utf-8")
    print("\n".join(sentences(report)))


if __name__ == "__main__":
    main()

"""Record the results that pages show before the first one of the user: `make recordings`.

They are made with the program's own commands. The machine should be quiet, because the recordings
show its measurements.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from specviz.comparison.kept_runs import kept_comparison
from specviz.comparison.plan import Lane, parse_lane
from specviz.comparison.recorded_comparison import comparison_to_record
from specviz.measure.batch_costs import newest_batch_forecast
from specviz.measure.run_makers import InProcessMaker
from specviz.record.pairs import PairSpec
from specviz.record.prompts import Preset, SuiteItem, read_presets
from specviz.record.run_config import RunConfig
from specviz.store import Library
from specviz.store.files import to_json
from specviz.store.traces import save_trace
from specviz.tune.audit import Audit
from specviz.tune.audit_job import AuditJob
from specviz.tune.question import Question, enough_continuations
from specviz.tune.recorded_answer import answer_to_record
from specviz.tune.recorded_audits import AuditCourse, audits_to_record
from specviz.tune.tune_job import TuneJob
from specviz.ui.compare.example import RECORDED as RECORDED_COMPARISONS
from specviz.ui.lossless.sections import RECORDED as RECORDED_AUDITS
from specviz.ui.servers.example import RECORDED as RECORDED_SERVER_ANSWER
from specviz.ui.session.recordings import FOLDER, RECORDINGS, Recording
from specviz.ui.theory.misleading.machine_batch import RECORDED as RECORDED_BATCHES
from tests.load.record_sweep import record_sweep
from tests.servers.real_engines import running

ASSETS = Path(__file__).parents[1] / "assets"
STORY = read_presets()[0]
SIZE = "90M"  # of the simulated target
_OF_A_KIND = 3  # prompts
_EARLIER_RUNS = 3  # in other processes: their step costs explain the recorded run


def main() -> None:
    """Record everything, or only what the arguments name."""
    wanted = sys.argv[1:] or list(RECORDERS)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"SPECVIZ_HOME": home, "OMP_NUM_THREADS": "1"}
        for name in wanted:
            RECORDERS[name]()


def _record_run() -> None:
    """Record the first screen's run; earlier runs give its step costs."""
    for seed in range(_EARLIER_RUNS, -1, -1):
        table = ["--measure-costs"] if seed == _EARLIER_RUNS else []
        _specviz("run", STORY.text, "--target-body", SIZE, "--seed", str(seed), "--no-keep",
                 "--out", str(ASSETS / "first_trace.json"), *table)  # fmt: skip


def _record_runs() -> None:
    """Record the runs that people see who may not start runs, such as visitors of the demo."""
    FOLDER.mkdir(exist_ok=True)
    made = [each for each in RECORDINGS if each.options]
    first = {"--target-body" in each.options: each for each in reversed(made)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.json")
        for each in first.values():  # its step costs explain the other runs of this size
            _make_recording(each, file, "--measure-costs")
        for each in made:
            _make_recording(each, file)
            each.file.write_bytes(gzip.compress(file.read_bytes(), mtime=0))


def _make_recording(recording: Recording, file: Path, *more: str) -> None:
    _specviz("run", recording.preset.text, *recording.options, "--seed", "0", "--max-new-tokens",
             "96", "--threads", "1", "--no-keep", "--out", str(file), *more)  # fmt: skip


def _record_answer() -> None:
    """Record Tune's answer for the pair of the recorded run, with prompt lookup beside it."""
    config = RunConfig(max_new_tokens=128)
    first = Lane(spec=PairSpec(target_body=SIZE, threads=1), config=config)
    items = (SuiteItem(prompt=STORY.text, kind=STORY.kind),)
    question = Question(
        lanes=(first, parse_lane("drafter=prompt-lookup", first)),
        items=items,
        continuations=enough_continuations(items),
    )
    job = TuneJob(question, InProcessMaker(print))
    job.carry_out()
    assert job.error is None
    (ASSETS / "recorded_answer.json").write_text(answer_to_record(job.answer), encoding="utf-8")


def _record_comparison() -> None:
    """Record a small γ against a large one."""
    _specviz("compare", "--lane", "gamma=2", "--lane", "gamma=8", "--prompt", STORY.text,
             "--target-body", SIZE, "--max-new-tokens", "48", "--repeats", "6")  # fmt: skip
    _keep_comparison(RECORDED_COMPARISONS["prompt"])


def _record_kinds() -> None:
    """Record the draft model against prompt lookup, on several kinds of text."""
    kinds: dict[str, list[Preset]] = {}
    for each in read_presets():
        kinds.setdefault(each.kind, []).append(each)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as suite:
        for each in (each for found in kinds.values() for each in found[:_OF_A_KIND]):
            suite.write(json.dumps({"prompt": each.text, "kind": each.kind}) + "\n")
        suite.flush()
        _specviz("compare", "--lane", "gamma=3", "--lane", "drafter=prompt-lookup", "--suite",
                 suite.name, "--target-body", SIZE, "--max-new-tokens", "24",
                 "--repeats", "1")  # fmt: skip
    _keep_comparison(RECORDED_COMPARISONS["suite"])


def _keep_comparison(path: Path) -> None:
    """Write the newest comparison to a file."""
    library = Library()
    plan, runs = kept_comparison(library, library.comparisons()[0].key)
    path.write_bytes(comparison_to_record(plan, runs))


def _record_audits() -> None:
    """Record an audit of the loop as it is, and one with an injected bug."""
    courses: list[AuditCourse] = []
    for broken in (None, "recovered-from-target"):
        audit = Audit(config=RunConfig(temperature=1.0), runs=300, broken=broken)
        job = AuditJob(audit, PairSpec(threads=1), InProcessMaker(print))
        job.carry_out()
        assert job.error is None
        courses.append(AuditCourse(broken=broken, reports=job.reports))
    RECORDED_AUDITS.write_text(audits_to_record(courses), encoding="utf-8")


def _record_server_answer() -> None:
    """Record an answer of vLLM with the embedded pair: `make engines` installs it."""
    with running("vllm") as address:
        for _ in range(2):  # the first answer waits for compilation
            _specviz("attach", address, "--prompt", STORY.text, "--max-new-tokens", "96",
                     "--temperature", "0")  # fmt: skip
    library = Library()
    save_trace(library.open_any(library.find()[0].id), RECORDED_SERVER_ANSWER)


def _record_batches() -> None:
    """Record batches of the embedded pair with the enlarged target."""
    _specviz("bench", "--batch", "--target-body", SIZE)
    found = newest_batch_forecast()
    assert found is not None
    RECORDED_BATCHES.write_bytes(gzip.compress(to_json(asdict(found)).encode(), mtime=0))


def _specviz(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "specviz", *arguments], check=True)


RECORDERS: dict[str, Callable[[], None]] = {
    "run": _record_run,
    "runs": _record_runs,
    "answer": _record_answer,
    "comparison": _record_comparison,
    "kinds": _record_kinds,
    "audits": _record_audits,
    "server": _record_server_answer,
    "load": record_sweep,
    "batches": _record_batches,
}

if __name__ == "__main__":
    main()

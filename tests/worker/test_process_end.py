"""When the process dies, the reason is shown, rounds are kept and another process starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import load_trace, save_trace
from specviz.tune.audit import Audit
from specviz.tune.audit_job import AuditJob
from specviz.worker.parent.client import Worker
from specviz.worker.parent.job_queue import JobQueue
from specviz.worker.parent.worker_maker import WorkerMaker
from specviz.worker.process_end import is_device_fault, unexpected_end
from tests.ready_processes import fork_workers_at
from tests.worker.faulty_process import ROUNDS
from tests.worker.studies import Counting
from tests.worker.waiting import finish, wait_for_rounds, wait_until

pytestmark = pytest.mark.timeout(180)

PROMPT = "A little bird sat on"
SHORT = RunConfig(gamma=4, max_new_tokens=24, ignore_eos=True)
LONG = replace(SHORT, max_new_tokens=1000)
REPLACED_SECONDS = 6.0


def gone(pid: int) -> Callable[[], bool]:
    """Return whether the process is gone, even as a zombie."""
    return lambda: not Path(f"/proc/{pid}").exists()


def test_killed_during_a_run(worker: Worker, spec: PairSpec, tmp_path: Path) -> None:
    run = worker.submit("a", spec, PROMPT, LONG)
    waiting = worker.submit("b", spec, PROMPT, SHORT)
    wait_for_rounds(run, 5)
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: run.finished) < 4.0  # twice the bound
    assert run.state == "failed"
    assert run.error is not None
    assert run.error.culprit == (
        "The worker process was killed (signal 9), possibly because memory ran out."
    )
    assert run.error.remedy.startswith("The finished rounds are kept.")
    trace = run.trace
    assert trace is not None
    assert len(run.rounds) >= 5
    assert (trace.rounds, trace.finish) == (tuple(run.rounds), "stopped")
    assert trace.text == "".join(
        [c.text for e in run.rounds for c in (*e.candidates[: e.num_accepted], e.extra) if c]
    )
    save_trace(trace, tmp_path / "trace.json")
    assert load_trace(tmp_path / "trace.json") == trace
    assert finish(waiting).state == "done"
    assert worker.pid != pid
    assert gone(pid)()


def test_device_fault_ends_the_process(
    new_worker: Worker, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_workers_at(monkeypatch, "tests.worker.faulty_process:faulty_main")
    run = new_worker.submit("a", spec, "A fault", SHORT)
    waiting = new_worker.submit("b", spec, PROMPT, replace(SHORT, max_new_tokens=8), baseline=False)
    wait_until(lambda: new_worker.pid is not None)
    pid = new_worker.pid  # before the fault
    finish(run)
    assert (run.state, len(run.rounds)) == ("failed", ROUNDS)
    assert run.error is not None
    assert "ended after a device fault" in run.error.culprit
    assert run.trace is not None
    assert finish(waiting).state == "done"
    assert new_worker.pid != pid
    assert pid is not None
    assert gone(pid)()


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling"), True),
        (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), True),
        (type("AcceleratorError", (RuntimeError,), {})("whatever it says"), True),
        (RuntimeError("The size of tensor a must match"), False),
        (ValueError("CUDA error"), False),
    ],
)
def test_is_device_fault(error: Exception, fault: bool) -> None:
    assert is_device_fault(error) is fault


def test_killed_while_idle(new_worker: Worker, spec: PairSpec) -> None:
    finish(new_worker.submit("a", spec, PROMPT, SHORT, baseline=False))
    wait_until(lambda: not new_worker.busy)
    pid = new_worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: new_worker.status().state == "failed") < 4.0
    status = new_worker.status()
    assert status.error is not None
    assert "signal 9" in status.error.culprit
    assert status.spec == spec
    assert_replaced(new_worker, pid)
    assert new_worker.status() == status  # until the next request
    assert finish(new_worker.submit("a", spec, PROMPT, SHORT)).state == "done"
    assert new_worker.status().state == "ready"
    assert gone(pid)()


def assert_replaced(worker: Worker, pid: int) -> None:
    """Wait until another process has started, although no request waits."""
    wait_until(lambda: worker.pid not in (None, pid), REPLACED_SECONDS)
    wait_until(lambda: worker._listening, REPLACED_SECONDS)


@pytest.mark.parametrize(
    "kind",
    ["run", "study", "work", pytest.param("comparison", marks=pytest.mark.thorough), "preparing"],
)
def test_starts_another_process_after_any_kind_of_request(
    new_worker: Worker, spec: PairSpec, kind: str
) -> None:
    error, ended = begin(kind, new_worker, spec)
    pid = new_worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert_replaced(new_worker, pid)
    wait_until(ended)
    assert "signal 9" in str(error())
    assert new_worker.status().state == "failed"
    assert not new_worker.busy


def begin(
    kind: str, worker: Worker, spec: PairSpec
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Start one request alone; return how to get its error, and whether it has ended."""
    maker = WorkerMaker(worker, "work")
    match kind:
        case "run":
            run = worker.submit("a", spec, PROMPT, LONG)
            wait_for_rounds(run, 1)
            return lambda: run.error, lambda: run.finished
        case "study":
            study = worker.study(spec, Counting(count=10**6, seconds=0.01))
            next(study.values())
            return lambda: study.error, lambda: study.done
        case "preparing":
            worker.prepare(spec)
            wait_until(lambda: worker.status().state == "loading")
            return lambda: worker.status().error, lambda: worker.status().error
        case "work":
            audit = Audit(config=RunConfig(temperature=1.0), runs=5000)
            job = AuditJob(audit, spec, maker)
        case _:
            lanes = tuple(Lane(spec=spec, config=replace(LONG, gamma=each)) for each in (2, 4))
            plan = Plan(lanes=lanes, items=(SuiteItem(prompt=PROMPT),), repeats=2)
            job = ComparisonJob(plan, maker, None)
    JobQueue().start(job)
    wait_until(lambda: job.state == "running" and worker.status().state == "ready")
    return lambda: job.error, lambda: not job.going


def test_does_not_restart_forever_without_a_request(new_worker: Worker, spec: PairSpec) -> None:
    new_worker.start()
    wait_until(lambda: new_worker._listening)
    assert new_worker.pid is not None
    os.kill(new_worker.pid, signal.SIGKILL)
    wait_until(lambda: new_worker.status().state == "failed")
    assert new_worker.pid is None
    assert finish(new_worker.submit("a", spec, PROMPT, SHORT, baseline=False)).state == "done"


def test_close_ends_the_process_and_its_runs(new_worker: Worker, spec: PairSpec) -> None:
    new_worker.start()
    wait_until(lambda: new_worker.pid is not None)
    pid = new_worker.pid
    assert pid is not None
    run = new_worker.submit("a", spec, PROMPT, LONG)
    check = new_worker.check(spec)
    new_worker.close()
    assert gone(pid)()
    assert (run.state, check.done, new_worker.pid) == ("stopped", True, None)
    assert new_worker.status().state == "none"


@pytest.mark.usefixtures("real_start")
@pytest.mark.parametrize("program", ["/bin/false", "/no/such/program"])
def test_does_not_retry_a_failing_start_forever(
    new_worker: Worker, spec: PairSpec, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    run, check = new_worker.submit("a", spec, PROMPT, SHORT), new_worker.check(spec)
    finish(run)
    wait_until(lambda: check.done)
    assert run.state == "failed"
    assert run.error is not None
    assert "could not start" in run.error.culprit
    assert check.error is not None
    assert "could not start" in check.error.culprit
    assert (new_worker.pid, new_worker.status().state) == (None, "failed")


def test_process_ends_with_its_parent(home: Path) -> None:
    code = """
import time
from specviz.record.pairs import PairSpec
from specviz.worker.parent.client import Worker
worker = Worker()
worker.prepare(PairSpec(name="tinystories", threads=1))
while worker.status().state != "loading":
    time.sleep(0.01)
print(worker.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    wait_until(lambda: not _runs(pid), 30.0)


def _runs(pid: int) -> bool:
    """Return whether the process is gone or a zombie; an orphan may remain as one for a while."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "was killed (signal 9), possibly because memory ran out"),
        (-11, "was ended by signal 11 (Segmentation fault)"),
        (3, "ended by itself (exit code 3)"),
    ],
)
def test_describes_the_reason(code: int, words: str) -> None:
    assert unexpected_end(code).culprit == f"The worker process {words}."

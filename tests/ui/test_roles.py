"""What each role may start, checked where the work is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person, Role
from specviz.errors import AccessError
from specviz.measure.background_job import Job
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.recorded.pages import SUBSTITUTES
from specviz.ui.session import background_jobs, person
from specviz.ui.session.background_jobs import PageJobQueue, start_comparison, stop
from specviz.ui.session.worker import PageWorker
from specviz.ui.shell import PAGES
from specviz.ui.theory.claims.runs import ClaimRuns
from specviz.worker.parent.client import PairStatus, Worker
from specviz.worker.parent.handles import StudyHandle

STUDENT = Person(key="sam@uni.example", role=Role.STUDENT)
VIEWER = Person(key="vic@uni.example", role=Role.VIEWER)
OWNER = Person(key="ada@uni.example", role=Role.OWNER)
LOADED, OTHER = PairSpec(target="us/loaded"), PairSpec(target="us/other")
Become = Callable[[Person], None]


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Become:
    def become(someone: Person) -> None:
        monkeypatch.setattr(person, "the_person", lambda: someone)

    return become


class Recorder:
    """A worker whose requests are recorded in place of a worker process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[str] = []
        self.status = PairStatus(state="ready", spec=LOADED)
        for name in ("prepare", "submit", "check", "room", "study", "unload", "cancel_loading",
                     "cancel_preparing", "end_calibration"):  # fmt: skip
            monkeypatch.setattr(Worker, name, self._recorded(name))
        monkeypatch.setattr(Worker, "status", lambda _: self.status)
        self.worker = PageWorker()

    def _recorded(self, name: str) -> Callable[..., None]:
        return lambda *_args, **_options: self.requests.append(name)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


def everything(worker: PageWorker, spec: PairSpec) -> list[Any]:
    """Ask the worker for everything that a page can ask for; return the handles."""
    worker.prepare(spec)
    worker.prepare(spec, fresh=True)
    handles = [
        worker.submit("tab", spec, "x", RunConfig()), worker.check(spec),
        worker.room(spec), worker.study(spec, None),  # type: ignore[arg-type]
    ]  # fmt: skip
    worker.unload()
    worker.cancel_loading()
    worker.cancel_preparing(spec)
    worker.end_calibration()
    return handles


@pytest.mark.parametrize("someone", [VIEWER, EVERYBODY])
def test_a_viewer_starts_nothing(recorder: Recorder, become: Become, someone: Person) -> None:
    become(someone)
    for spec in (LOADED, OTHER, PairSpec()):
        run, check, room, study = everything(recorder.worker, spec)
        assert run.state == "failed"
        for each in (run, check, room, study):
            assert isinstance(each.error, AccessError)
            assert "\n" not in str(each.error)
            assert "role viewer" in str(each.error)
        assert isinstance(study, StudyHandle)
    assert recorder.requests == []


def test_a_student_runs_only_the_loaded_pair(recorder: Recorder, become: Become) -> None:
    become(STUDENT)
    everything(recorder.worker, LOADED)
    assert recorder.requests == ["prepare", "submit", "room"]
    recorder.requests.clear()
    run, *_ = everything(recorder.worker, OTHER)
    assert recorder.requests == ["room"]
    assert str(run.error) == (
        "Only an owner of this dashboard may load another pair. Run the pair that is loaded."
    )


def test_a_refusal_does_not_say_whether_the_model_exists(
    recorder: Recorder, become: Become
) -> None:
    become(STUDENT)
    places = ["/etc/passwd", "/no/such/file", "us/other", "~/x", str(__file__)]
    runs = [
        recorder.worker.submit("tab", PairSpec(target=each), "x", RunConfig()) for each in places
    ]
    assert len({str(each.error) for each in runs}) == 1
    assert recorder.requests == []


@pytest.mark.parametrize("state", ["none", "failed"])
def test_a_student_may_load_the_embedded_pair_if_there_is_no_other(
    recorder: Recorder, become: Become, state: Any
) -> None:
    become(STUDENT)
    recorder.status = PairStatus(state=state, spec=None if state == "none" else OTHER)
    everything(recorder.worker, PairSpec())
    assert recorder.requests == ["prepare", "submit", "room"]
    recorder.requests.clear()
    everything(recorder.worker, OTHER)
    assert recorder.requests == ["room"]


def test_a_student_gets_no_other_size(recorder: Recorder, become: Become) -> None:
    """An enlarged pair is another pair: it may need all of the machine's memory."""
    become(STUDENT)
    recorder.status = PairStatus(state="ready", spec=PairSpec())
    run = recorder.worker.submit("tab", PairSpec(target_body="1B"), "x", RunConfig())
    assert isinstance(run.error, AccessError)


@pytest.mark.parametrize("someone", [OWNER, OPEN_OWNER])
def test_an_owner_may_do_everything(recorder: Recorder, become: Become, someone: Person) -> None:
    become(someone)
    everything(recorder.worker, OTHER)
    assert recorder.requests == [
        "prepare", "prepare", "submit", "check", "room", "study", "unload", "cancel_loading",
        "cancel_preparing", "end_calibration",
    ]  # fmt: skip


# Jobs


class _Job(Job):
    def __init__(self) -> None:
        super().__init__(name="tune", label="A job")
        self.worked = False

    @property
    def progress(self) -> tuple[int, int]:
        return 0, 1

    def _work(self) -> None:
        self.worked = True


@pytest.mark.parametrize("someone", [VIEWER, STUDENT, EVERYBODY])
def test_only_owners_start_jobs(become: Become, someone: Person) -> None:
    queue, job = PageJobQueue(), _Job()
    become(someone)
    with pytest.raises(AccessError, match="compare, tune, check or train"):
        queue.start(job)
    assert queue.jobs == ()
    become(OWNER)
    queue.start(job)
    assert job.wait(10)
    assert job.worked


@pytest.mark.parametrize("someone", [VIEWER, STUDENT])
def test_only_owners_start_comparisons(
    become: Become, someone: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(someone)
    remembered: list[object] = []
    monkeypatch.setattr(
        background_jobs.unfinished_plans, "remember", lambda *plan: remembered.append(plan)
    )
    for on_cluster in (False, True):
        with pytest.raises(AccessError):
            start_comparison("compare", None, fresh=True, on_cluster=on_cluster)  # type: ignore[arg-type]
    assert remembered == []


@pytest.mark.parametrize("someone", [VIEWER, STUDENT])
def test_nobody_else_stops_an_owners_job(become: Become, someone: Person) -> None:
    job = _Job()
    become(someone)
    with pytest.raises(AccessError, match="stop the work of others"):
        stop(job)
    assert not job.was_stopped


def test_a_refused_claim_leaves_no_job(become: Become) -> None:
    """Otherwise every page would wait for a job that never begins."""
    become(STUDENT)
    runs = ClaimRuns()
    with pytest.raises(AccessError):
        runs.start("speed", "card", PairSpec(), None)  # type: ignore[arg-type]
    assert runs.going("speed") is None
    assert not runs.busy_cards


# Pages


def test_the_pages_of_each_role() -> None:
    def pages(someone: Person) -> set[str]:
        return {each.name for each in PAGES if someone.may(each.needs)}

    owners = {"compare", "tune", "train", "lossless", "servers", "claims"}
    assert pages(OWNER) == {each.name for each in PAGES}
    assert pages(STUDENT) == pages(OWNER) - owners
    assert pages(VIEWER) == pages(STUDENT) - {"watch", "learn"}
    assert set(SUBSTITUTES) == pages(OWNER) - pages(VIEWER)

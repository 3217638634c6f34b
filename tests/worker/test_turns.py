"""The order of waiting requests: persons take turns. No process is started."""

from __future__ import annotations

from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.worker.messages import CheckRequest
from specviz.worker.parent.handles import Run
from specviz.worker.parent.request_queue import RequestQueue

SPEC = PairSpec()


def add(queue: RequestQueue, *names: str) -> list[Run]:
    """Add a run for each name such as "a1": the person is its first letter."""
    runs: list[Run] = []
    for name in names:
        run = Run(session=name, spec=SPEC, config=RunConfig(), on_stop=lambda _run: None)
        queue.add(CheckRequest(spec=SPEC), run, name[0].strip("-"))
        runs.append(run)
    return runs


def served(queue: RequestQueue, count: int = 99) -> list[str]:
    """Return the sessions in the order in which their runs become active."""
    order: list[str] = []
    while count > 0 and queue.waits:
        active = queue.activate_next()
        assert active is not None
        assert active.run is not None
        order.append(active.run.session)
        queue.take_active()
        count -= 1
    return order


def test_one_persons_waiting_runs_do_not_delay_others() -> None:
    queue = RequestQueue()
    add(queue, "a1", "a2", "a3", "a4", "b1", "c1", "b2")
    planned = [each.run.session for each in queue if each.run]
    assert served(queue) == planned == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_a_person_who_was_just_served_goes_last() -> None:
    queue = RequestQueue()
    add(queue, "a1", "a2", "a3")
    assert served(queue, 1) == ["a1"]
    add(queue, "b1", "b2")
    assert served(queue, 2) == ["b1", "a2"]
    add(queue, "c1")
    assert served(queue) == ["c1", "b2", "a3"]


def test_requests_without_a_person_keep_their_order() -> None:
    queue = RequestQueue()
    add(queue, "-1", "-2", "-3")
    assert served(queue) == ["-1", "-2", "-3"]


def test_nobody_starves() -> None:
    """Sixty persons who each keep four runs waiting: everybody is served once per round."""
    queue = RequestQueue()
    persons = [chr(0x100 + number) for number in range(60)]
    for person in persons:
        add(queue, *(f"{person}{number}" for number in range(4)))
    for _ in range(5):
        order = served(queue, 60)
        assert sorted(each[0] for each in order) == persons
        add(queue, *(f"{person}+" for person in persons))


def test_places_follow_the_turns_and_a_stopped_run_leaves() -> None:
    queue = RequestQueue()
    first, second, third, other = add(queue, "a1", "a2", "a3", "b1")
    queue.update_places()
    assert [each.place for each in (first, other, second, third)] == [0, 1, 2, 3]
    queue.remove_waiting(second)
    queue.update_places()
    assert [each.place for each in (first, other, third)] == [0, 1, 2]
    assert served(queue) == ["a1", "b1", "a3"]
    assert [*queue] == []

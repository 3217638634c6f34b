"""Work on a cluster: offered only where Ray is installed, and then it is done there."""

from __future__ import annotations

from typing import Never

import pytest

from specviz.comparison.plan import Lane, Plan, SuiteItem
from specviz.errors import DeviceError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.session import cluster_jobs
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.widgets import cluster_box
from tests.ui.compare_page import compare_page
from tests.ui.paging import page_of, sound


class FakeCluster:
    """Notes how it was asked for and that it was let go of; it makes nothing."""

    made: list[FakeCluster]
    doing = ""

    def __init__(self, **asked: object) -> None:
        self.asked, self.open = asked, True
        self.made.append(self)

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False

    def stop(self) -> None: ...

    def find(self, *_: object) -> Never:
        raise DeviceError("There is no device.", remedy="Start one.")


def test_without_ray_there_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_box, "has_ray", lambda: False)
    for page in (compare_page(), page_of("tune")):
        assert not [each for each in page.toggle if (each.key or "").endswith("on_cluster")]


def test_with_ray_the_work_goes_to_a_cluster_and_lets_go_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FakeCluster.made = []
    monkeypatch.setattr(cluster_box, "has_ray", lambda: True)
    monkeypatch.setattr(cluster_jobs, "PageClusterMaker", FakeCluster)
    app = compare_page()
    sound(app.toggle(key="compare_on_cluster").set_value(True).run())
    sound(app.button(key="compare_start_prompt").click().run())
    (work,) = the_job_queue().works
    assert work.wait(20)
    (cluster,) = FakeCluster.made
    assert cluster.asked == {"timed": True, "threads": None, "device": "auto"}


def test_texts_are_scored_on_a_cluster_where_nothing_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FakeCluster.made = []
    monkeypatch.setattr(cluster_box, "has_ray", lambda: True)
    monkeypatch.setattr(cluster_jobs, "PageClusterMaker", FakeCluster)
    app = page_of("tune")
    sound(app.toggle(key="tune_on_cluster").set_value(True).run())
    sound(app.button(key="tune_ask").click().run())
    work = the_job_queue().newest("tune")
    assert work is not None
    assert work.wait(20)
    (cluster,) = FakeCluster.made
    assert cluster.asked == {"timed": False, "threads": None, "device": "auto"}
    assert not cluster.open
    assert "There is no device." in str(work.error)


def test_however_the_work_ends_its_cluster_is_let_go_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FakeCluster.made = []
    monkeypatch.setattr(cluster_jobs, "PageClusterMaker", FakeCluster)
    lanes = tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=each)) for each in (2, 4))
    plan = Plan(lanes=lanes, items=(SuiteItem(prompt="Once"),))
    work = cluster_jobs.ClusterComparison(plan, cluster_jobs.Library(), name="prompt", reuse="any")
    work.carry_out()  # it can check nothing
    assert work.state == "failed"
    assert not FakeCluster.made[0].open

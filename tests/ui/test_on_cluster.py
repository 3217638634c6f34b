"""Jobs on a cluster: offered only if Ray is installed, and executed there."""

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
    """Records its arguments and its release; runs nothing."""

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


@pytest.fixture
def fake_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster.made = []
    monkeypatch.setattr(cluster_box, "has_ray", lambda: True)
    monkeypatch.setattr(cluster_jobs, "PageClusterMaker", FakeCluster)


def test_without_ray_there_is_no_toggle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_box, "has_ray", lambda: False)
    for page in (compare_page(), page_of("tune")):
        assert not [each for each in page.toggle if (each.key or "").endswith("on_cluster")]


@pytest.mark.usefixtures("fake_cluster")
def test_with_ray_the_job_uses_and_releases_a_cluster() -> None:
    app = compare_page()
    sound(app.toggle(key="compare_on_cluster").set_value(True).run())
    sound(app.button(key="compare_start_prompt").click().run())
    (work,) = the_job_queue().jobs
    assert work.wait(20)
    (cluster,) = FakeCluster.made
    assert cluster.asked == {"timed": True, "threads": None, "device": "auto"}


@pytest.mark.usefixtures("fake_cluster")
def test_texts_are_scored_on_a_cluster_without_timing() -> None:
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


@pytest.mark.usefixtures("fake_cluster")
def test_the_cluster_is_released_however_the_job_ends() -> None:
    lanes = tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=each)) for each in (2, 4))
    plan = Plan(lanes=lanes, items=(SuiteItem(prompt="Once"),))
    work = cluster_jobs.ClusterComparison(plan, cluster_jobs.Library(), name="prompt", reuse="any")
    work.carry_out()  # its check fails
    assert work.state == "failed"
    assert not FakeCluster.made[0].open

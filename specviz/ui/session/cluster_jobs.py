"""Jobs on the Ray cluster at ``RAY_ADDRESS`` or, if that is not set, on this machine's cores.

A page cannot choose the address, so no link can send a run to another machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specviz.cluster.address import has_ray
from specviz.cluster.cluster_maker import ClusterMaker
from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.plan import Plan
from specviz.measure.background_job import Job
from specviz.measure.run_makers import Block, MadeRun, Study
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairCheck, PairSpec
from specviz.record.run_config import refuse_own_drafter
from specviz.record.trace import StepCosts
from specviz.store import Library
from specviz.tune.question import Question
from specviz.tune.tune_job import TuneJob
from specviz.ui.session.model_places import require_open

__all__ = ["ClusterComparison", "ClusterTune", "has_ray"]


class PageClusterMaker(ClusterMaker):
    """Makes runs on the cluster; refuses pairs this dashboard must not open (``model_places``)."""

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        require_open(spec)
        return super().check(spec, prompts, chat=chat)

    def make_blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
        for order in (each.order for block in blocks for each in block.runs):
            require_open(order.spec)
            refuse_own_drafter(order.config)
        return super().make_blocks(blocks)

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        require_open(spec)
        return super().find(spec, study)


class _OnCluster(Job):
    """A job that releases its cluster when it ends, even on failure."""

    _cluster: PageClusterMaker

    def carry_out(self) -> None:
        with self._cluster:
            super().carry_out()


class ClusterComparison(_OnCluster, ComparisonJob):
    def __init__(self, plan: Plan, library: Library, *, name: str, reuse: Reuse) -> None:
        spec = plan.lanes[0].spec
        self._cluster = PageClusterMaker(
            timed=plan.baseline, threads=spec.threads, device=spec.device
        )
        ComparisonJob.__init__(self, plan, self._cluster, library, name=name, reuse=reuse)


class ClusterTune(_OnCluster, TuneJob):
    def __init__(self, question: Question, *, given: StepCosts | None) -> None:
        spec = question.lanes[0].spec
        self._cluster = PageClusterMaker(timed=False, threads=spec.threads, device=spec.device)
        TuneJob.__init__(self, question, self._cluster, given=given)

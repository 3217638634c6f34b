"""A comparison whose runs are made on a cluster: that of RAY_ADDRESS, or this machine's cores.

A page names no address, so that no link can send a run anywhere.
"""

from __future__ import annotations

from specviz.cluster.address import has_ray
from specviz.cluster.cluster_maker import ClusterMaker
from specviz.comparison.comparison_work import ComparisonWork
from specviz.comparison.kept_runs import Reuse
from specviz.comparison.plan import Plan
from specviz.store import Library

__all__ = ["ClusterComparison", "has_ray"]


class ClusterComparison(ComparisonWork):
    """It lets go of the cluster when it is over, however it ends."""

    def __init__(self, plan: Plan, library: Library, *, name: str, reuse: Reuse) -> None:
        spec = plan.lanes[0].spec
        self._cluster = ClusterMaker(timed=plan.baseline, threads=spec.threads, device=spec.device)
        super().__init__(plan, self._cluster, library, name=name, reuse=reuse)

    def carry_out(self) -> None:
        with self._cluster:
            super().carry_out()

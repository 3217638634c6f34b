"""Old import names of modules that have moved, for code outside this project.

``import specviz.record.metrics`` still works and loads ``specviz.figures.metrics``. No module of
this project uses an old name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_FROM_RECORD_TO_FIGURES = (
    "acceptance", "body_words", "engine_figures", "expectation", "figure", "formulas", "frames",
    "intervals", "method_checks", "metrics", "roofline", "roofline_words", "server_figures",
    "server_words", "speedup_words", "step_cost_warnings", "step_times", "stopping_reach",
    "theorem_checks", "throughput", "timing", "token_kinds", "waterfall",
)  # fmt: skip
MOVED = {f"record.{name}": f"figures.{name}" for name in _FROM_RECORD_TO_FIGURES} | {
    "bench.asked": "bench.gpu_goals",
    "comparison.comparison_work": "comparison.comparison_job",
    "comparison.statistics": "figures.paired",
    "comparison.work": "measure.background_job",
    "engine.decoding.equal": "engine.decoding.token_matching",
    "engine.decoding.one_behind": "engine.decoding.pipelined_run",
    "engine.decoding.retracing": "engine.decoding.timed_replay",
    "engine.decoding.siblings": "engine.decoding.tree_verification",
    "engine.decoding.together": "engine.decoding.block_verification",
    "engine.graphed.alone": "engine.graphed.target_decoder",
    "engine.graphed.static_model": "engine.model.static_step",
    "engine.loading.fingerprint": "engine.model.fingerprint",
    "engine.loading.libraries": "engine.model.libraries",
    "kernels.lanes": "kernels.simd",
    "measure.own_speedup": "measure.speedup_without_body",
    "record.figures": "figures.catalogue",
    "record.recorded_ways": "figures.recorded_methods",
    "servers.against": "servers.baseline",
    "servers.against_work": "servers.baseline_job",
    "servers.law_study": "servers.distribution_study",
    "theory.claims.ways": "theory.claims.methods",
    "theory.listed_laws": "theory.listed_distributions",
    "tune.audit_work": "tune.audit_job",
    "tune.tune_work": "tune.tune_job",
    "tune.way_runs": "tune.method_runs",
    "tune.ways": "tune.methods",
    "worker.parent.work_queue": "worker.parent.job_queue",
    "ui.session.background_work": "ui.session.background_jobs",
    "ui.session.cluster_work": "ui.session.cluster_jobs",
    "ui.theory.kept_ways": "ui.theory.kept_methods",
    "ui.watch.player_wishes": "ui.watch.player_events",
    "ui.watch.own_run": "ui.watch.run_without_body",
    "ui.widgets.answer_files": "ui.widgets.run_files",
    "ui.widgets.way_boxes": "ui.widgets.method_boxes",
}


class _Moved(MetaPathFinder, Loader):
    """An import finder and loader for the old names of modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        old = fullname.removeprefix("specviz.")
        return ModuleSpec(fullname, self) if old != fullname and old in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"specviz.{MOVED[spec.name.removeprefix('specviz.')]}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec of the module's new name; the module was executed already."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def find_moved_modules() -> None:
    """Let imports find modules by their old names."""
    if not any(isinstance(each, _Moved) for each in sys.meta_path):
        sys.meta_path.append(_Moved())

"""Pairs that are loaded while a child process still compiles the kernels.

The steps of such a pair run through torch until ``add_kernels`` is called.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

from specviz.engine.loading import hardware
from specviz.engine.loading.compatibility import with_kernels
from specviz.engine.loading.opening import OpenPair, no_progress
from specviz.engine.model.pair import Pair
from specviz.engine.model.tensors import type_name
from specviz.kernels.ahead import is_compiling
from specviz.kernels.readiness import DEFAULT_NUMBER_TYPE, ready
from specviz.record.pairs import COMPILING, GRAPHED, PairSpec, ProgressCallback
from specviz.record.trace import KERNEL_COMPILER

_NOTICE = "Steps used torch, which is slower, because the compiled code was not ready yet."
_OTHER_LOGITS = "Steps use torch, because the compiled code gives different logits for this pair."


def can_run_before_kernels(opened: OpenPair, spec: PairSpec) -> bool:
    """Return whether the kernels are still being compiled and the pair can run without them."""
    return (
        is_compiling()
        and opened.device.type == "cpu"
        and type_name(opened.dtype) == DEFAULT_NUMBER_TYPE  # the dtype that the child compiles
        and spec.step != GRAPHED
        and not spec.head
        and not any(side.packed_as for side in opened.sides)
    )


def mark_lacking_kernels(pair: Pair) -> None:
    """Mark a pair whose steps do not use the kernels yet.

    The pair's environment then lacks the compiler's version, so that its step costs are stored
    apart from those of the compiled code.
    """
    pair.lacks_kernels = True
    pair.notices += (_NOTICE,)
    versions = pair.environment.versions
    others = {name: versions[name] for name in versions if name != KERNEL_COMPILER}
    pair.environment = replace(pair.environment, versions=others)


def add_kernels(pair: Pair, spec: PairSpec, on_progress: ProgressCallback = no_progress) -> None:
    """Wait for the compilation; from then on, the steps of a pair without kernels use them.

    If the kernels give other logits, the pair keeps running through torch, and a notice says so.
    """
    on_progress(COMPILING)
    ready(pair.environment.dtype)
    target = with_kernels(pair.target_weights, pair.target, pair.vocabulary)
    draft = None
    if pair.draft is not None and pair.draft_weights is not None:
        own = pair.shared.draft.size if pair.shared else pair.vocabulary
        draft = with_kernels(pair.draft_weights, pair.draft, own)
    notices = tuple(each for each in pair.notices if each != _NOTICE)
    pair.lacks_kernels = False
    if target is None or (draft is None and pair.draft is not None):
        pair.notices = (*notices, _OTHER_LOGITS)
        return
    pair.target_weights, pair.draft_weights, pair.notices = target, draft, notices
    versions = {**pair.environment.versions, KERNEL_COMPILER: version(KERNEL_COMPILER)}
    pair.environment = replace(pair.environment, versions=versions)
    hardware.forget_bandwidth()  # measured beside the compilation
    if not spec.threads:
        models = [each for each in (pair.info.target, pair.info.draft) if each]
        most = max(each.parameters for each in models)
        threads = hardware.calibrate_threads(pair.target_step, hardware.thread_candidates(most))
        pair.environment = replace(pair.environment, threads=threads)

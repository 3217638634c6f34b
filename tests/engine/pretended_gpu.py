"""A GPU that computes on the CPU, to find there what a GPU would refuse.

Its tensors say that they are on another device, and the CPU holds their values. An operation on
tensors of both devices fails as on a GPU. So does, in a capture, a host read or a copy between the
devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from specviz.engine.graphed import lanes
from specviz.engine.graphed.playback import OnHost, Stage

GPU = "pretended:0"
_COPIES = {"copy_", "_to_copy", "to", "lift_fresh"}
_INDEXING = {"index", "index_put_", "index_put", "_index_put_impl_"}  # also accept CPU indices
_WAITS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select"}


class OnGpu(torch.Tensor):
    """A tensor that says it is on the GPU; ``held`` has its values."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> OnGpu:
        with torch.inference_mode(False):  # torch cannot make views of an inference tensor of ours
            return torch.Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=torch.device(GPU),
            )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{func} ran outside of the pretended GPU")


class _Gpu(TorchDispatchMode):
    """Runs every operation on the CPU, and checks the devices of its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.capturing = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        name, leaves = func.overloadpacket.__name__, tree_leaves((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        devices = [each for each in leaves if isinstance(each, torch.device)]
        result_on_gpu = _result_on_gpu(name, tensors, devices)
        self._check(name, tensors, result_on_gpu)
        found = func(*tree_map(_on_cpu, args), **tree_map(_on_cpu, kwargs))
        known = {id(_on_cpu(each)): each for each in tensors}

        def returned(each: Any) -> Any:
            if not isinstance(each, torch.Tensor):
                return each
            given = known.get(id(each))
            if given is None:
                return OnGpu(each) if result_on_gpu else each
            if isinstance(given, OnGpu) == result_on_gpu:  # changed in place
                return given
            return OnGpu(each.clone()) if result_on_gpu else each.clone()

        return tree_map(returned, found)

    def _check(self, name: str, tensors: Sequence[torch.Tensor], result_on_gpu: bool) -> None:
        ours = [each for each in tensors if isinstance(each, OnGpu)]
        others = [each for each in tensors if each.dim() and not isinstance(each, OnGpu)]
        mixed = bool(ours and others)
        if mixed and name not in _COPIES | _INDEXING:
            raise RuntimeError(f"{name}: Expected all tensors to be on the same device")
        if not self.capturing:
            return
        crossed = name in _COPIES and any(isinstance(t, OnGpu) != result_on_gpu for t in tensors)
        masks = name in _INDEXING and any(t.dtype == torch.bool for t in tensors[1:])
        if mixed or crossed or masks or (ours and name in _WAITS):
            raise RuntimeError(f"{name}: operation not permitted when stream is capturing")


def _result_on_gpu(
    name: str, tensors: Sequence[torch.Tensor], devices: Sequence[torch.device]
) -> bool:
    if devices:
        return devices[-1].type != "cpu"
    if name == "to" and len(tensors) == 2:
        return isinstance(tensors[1], OnGpu)
    if name == "copy_":
        return isinstance(tensors[0], OnGpu)
    return any(isinstance(each, OnGpu) for each in tensors)


def _on_cpu(each: Any) -> Any:
    if isinstance(each, OnGpu):
        return each.held
    return torch.device("cpu") if isinstance(each, torch.device) else each


class _Playback(OnHost):
    """Calls captured functions; their first call after the warm-up must not read or copy."""

    def __init__(self, gpu: _Gpu) -> None:
        self._gpu = gpu

    def capture(self, function: Stage, state: Sequence[torch.Tensor]) -> Stage:
        played = super().capture(function, state)
        before = [each.clone() for each in state]
        played()
        for each, was in zip(state, before, strict=True):
            each.copy_(was)

        def stage() -> None:
            self._gpu.capturing = True
            try:
                played()
            finally:
                self._gpu.capturing = False

        return stage


@cache
def _gpu() -> _Gpu:
    """Return the only GPU of the process: torch registers a device once."""
    _setup_privateuseone_for_python_backend(GPU.partition(":")[0])
    return _Gpu()


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """Let torch have the device ``GPU``; use everything on it only in such a context."""
    gpu = _gpu()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "playback_on", lambda _: _Playback(gpu))
        torch._C._set_only_lift_cpu_tensors(True)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            with gpu:
                yield
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)
            torch._C._set_only_lift_cpu_tensors(False)

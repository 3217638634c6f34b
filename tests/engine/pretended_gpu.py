"""A GPU that computes on the CPU, to find there what a GPU would refuse.

Tensors say that they are on ``cuda:0``, and the CPU holds their values. An operation on tensors of
both devices fails as on a GPU. So does a host read or a copy between the devices in a capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from specviz.engine.decoding import plain_decoding, speculation
from specviz.engine.decoding.clock import WallClock
from specviz.engine.graphed import lanes
from specviz.engine.graphed.playback import OnHost, Stage

GPU = torch.device("cuda", 0)
_COPIES = {"copy_", "_to_copy", "to", "lift_fresh"}
_INDEXING = {"index", "index_put_", "index_put", "_index_put_impl_"}  # also accept CPU indices
_WAITS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select"}


class OnGpu(torch.Tensor):
    """A tensor that says it is on the GPU; ``held`` has its values."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> OnGpu:
        return torch.Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=GPU,
        )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

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
            return known.get(id(each), OnGpu(each) if result_on_gpu else each)

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
        return devices[-1].type == "cuda"
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


@contextmanager
def pretended_gpu() -> Iterator[None]:
    """Let torch find a GPU; everything on it must be created and used in the context."""
    gpu = _Gpu()
    answers: dict[str, Callable[..., Any]] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: "a pretended GPU",
        "get_device_capability": lambda *_: (9, 0),
        "mem_get_info": lambda *_: (1 << 34, 1 << 34),
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
    }
    torch._C._ensureCUDADeviceGuardSet()
    with pytest.MonkeyPatch.context() as patch:
        for name, answer in answers.items():
            patch.setattr(torch.cuda, name, answer)
        patch.setattr(lanes, "playback_on", lambda _: _Playback(gpu))
        for module in (plain_decoding, speculation):
            patch.setattr(module, "make_clock", lambda _: WallClock())
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            with gpu:
                yield
        finally:
            torch._C._set_only_lift_cpu_tensors(False)

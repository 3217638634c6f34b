"""Choose device, dtype and threads; measure memory and bandwidth; describe the environment."""

from __future__ import annotations

import functools
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

import psutil
import torch
import torch.nn.functional as F

import specviz
from specviz.engine.model.steps import Step
from specviz.engine.model.tensors import type_name
from specviz.errors import DeviceError
from specviz.record.pairs import MAX_THREADS
from specviz.record.trace import Environment
from specviz.values import Value

_MAX_CALIBRATED_THREADS = 8
# A higher thread count is chosen only if it is this much faster, because threads wait for each
# other when another process is busy.
_THREAD_GAIN = 1.25
_VERIFY_TOKENS = 6
_SECONDS_A_CANDIDATE = 0.02
_MIN_REPEATS = 2
_LONG_TIMING = 0.25  # seconds
_SUMMING_SECONDS = 0.1
_SHORT_SUM, _LONG_SUM, _UNKNOWN_ROOM = 1 << 27, 1 << 32, 1 << 29  # bytes
_LARGE_MODEL = 100_000_000  # parameters


def choose_device(name: str) -> torch.device:
    """Return the named device; ``auto`` prefers cuda, then mps, then cpu."""
    if name == "auto":
        return torch.device(_best_kind())
    device = torch.device(name)
    _require(device)
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the named dtype; ``auto`` is bfloat16 or float16 on a GPU, float32 on a CPU."""
    return _native_dtype(device) if name == "auto" else getattr(torch, name)


def calibrate_threads(fresh_step: Callable[[int], Step], candidates: Iterable[int]) -> int:
    """Time steps with each thread count; set and return the best count.

    The best count is the lowest count with which steps are nearly as fast as possible.
    """
    seconds: dict[int, float] = {}
    undisturbed = math.inf
    for count in sorted(set(candidates)):
        torch.set_num_threads(count)
        product = _product_seconds()
        if product > 2 * undisturbed:
            break
        undisturbed = min(undisturbed, product)
        seconds[count] = _time_steps(fresh_step, min(seconds.values(), default=math.inf))
    chosen = fewest_within(seconds)
    torch.set_num_threads(chosen)
    return chosen


def fewest_within(seconds: dict[int, float]) -> int:
    best = min(seconds.values())
    return min(count for count, spent in seconds.items() if spent <= _THREAD_GAIN * best)


def thread_candidates(parameters: int) -> list[int]:
    """Return the thread counts to try: 1, half the maximum, and the maximum. Large models skip 1.

    The maximum is the number of cores, but at most 8 and at most ``OMP_NUM_THREADS``, if set.
    """
    most = min(os.cpu_count() or 1, _MAX_CALIBRATED_THREADS, _allowed_threads())
    fewest = 1 if parameters < _LARGE_MODEL else max(1, most // 2)
    return sorted({fewest, max(1, most // 2), most})


def _allowed_threads() -> int:
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(text) if text.isdecimal() and int(text) > 0 else MAX_THREADS


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a GPU or of the machine, swap included; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    return psutil.virtual_memory().available + psutil.swap_memory().free


class Stream(Value):
    """What one timing of a bandwidth measurement does: add up ``size`` bytes, ``sums`` times."""

    size: int  # bytes
    sums: int  # per synchronisation


def read_stream(device: torch.device, free: int | None) -> Stream:
    """Choose how large an array the bandwidth measurement sums, and how often in one timing.

    The array is larger than the caches, so the time of a sum depends on the memory.

    On a GPU, a timing ends with a synchronisation, which would take a large part of the time of a
    short sum. So a timing contains several long sums. Each of them reads at most a quarter of the
    free memory.
    """
    if device.type == "cpu":
        return Stream(size=_SHORT_SUM, sums=1)
    most = _UNKNOWN_ROOM if free is None else max(4, free // 4)
    return Stream(size=min(most, _LONG_SUM) // 4 * 4, sums=8)


def read_bandwidth(device: torch.device) -> float:
    """Return the memory bandwidth with torch's thread count.

    The bandwidth is measured once per thread count and then remembered.
    """
    return _bandwidth(device, torch.get_num_threads())


def forget_bandwidth() -> None:
    """Measure the memory bandwidth anew when it is needed next."""
    _bandwidth.cache_clear()


@functools.cache
def _bandwidth(device: torch.device, threads: int) -> float:
    del threads  # only a cache key: torch already uses this number
    return measure_bandwidth(device)


def measure_bandwidth(device: torch.device) -> float:
    """Return the memory bandwidth in bytes per second.

    The measurement adds up numbers in memory, with torch's current number of threads. It uses the
    fastest of several timings, because other processes can only make a timing longer. It takes at
    most about 0.3 s.
    """
    stream = read_stream(device, free_memory(device))
    numbers = torch.empty(stream.size // 4, device=device).fill_(1.0)  # every page is written
    spent: list[float] = []
    _sum_seconds(numbers, 1)
    while len(spent) < _MIN_REPEATS or (sum(spent) < _SUMMING_SECONDS and len(spent) < 20):
        spent.append(_sum_seconds(numbers, stream.sums))
    del numbers
    if device.type == "cuda":  # return the memory to the device
        torch.cuda.empty_cache()
    return stream.size * stream.sums / min(spent)


def _sum_seconds(numbers: torch.Tensor, sums: int) -> float:
    begin = time.perf_counter()
    results = [numbers.sum() for _ in range(sums)]
    results[-1].item()  # waits for a GPU to finish all sums
    return time.perf_counter() - begin


def describe(device: torch.device, dtype: torch.dtype) -> Environment:
    cpu = _cpu_name()
    packages = ("torch", "transformers", "tokenizers", "numba")
    return Environment(
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        dtype=type_name(dtype),
        threads=torch.get_num_threads(),
        cpu=cpu,
        versions={
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
            "specviz": specviz.__version__,
        },
    )


def _best_kind() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _require(device: torch.device) -> None:
    if device.type == "cpu":
        return
    if device.type == "mps":
        available = torch.backends.mps.is_available()
    else:
        available = torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
    if not available:
        raise DeviceError(
            f"This machine has no device {device}.",
            remedy=f"Choose {_best_kind()}, or auto for the best device.",
        )


def _native_dtype(device: torch.device) -> torch.dtype:
    if device.type == "cpu":
        return torch.float32
    if device.type == "cuda" and _has_bfloat16(device):
        return torch.bfloat16
    return torch.float16


def _has_bfloat16(device: torch.device) -> bool:
    """Return whether this GPU computes in bfloat16; torch only answers for the current GPU."""
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def _product_seconds() -> float:
    """Return the mean seconds of a small matrix product, measured for about 0.02 s at most.

    When another process is busy, the threads of a product wait for each other, 8 ms at a time. A
    model step has many products, so its waits can add up to a second. One product shows such
    waits, and timing it is quicker than timing a step.
    """
    rows, matrix = torch.ones(_VERIFY_TOKENS, 256), torch.ones(1024, 256)
    begin = time.perf_counter()
    spent, repeats = 0.0, 0
    while repeats < 200 and spent < _SECONDS_A_CANDIDATE:
        F.linear(rows, matrix)
        spent = time.perf_counter() - begin
        repeats += 1
    return spent / repeats


def _time_steps(fresh_step: Callable[[int], Step], best: float) -> float:
    """Return the median seconds of a step followed by a verification.

    If the warm-up takes over 0.25 s, or over three times ``best``, return the warm-up's time
    instead of the median.

    Args:
        best: The shortest of the times measured with other thread counts.
    """
    step = fresh_step(16)
    ids = torch.zeros(_VERIFY_TOKENS, dtype=torch.int64, device=step.device)
    warm_up = _one_timing(step, ids)
    if warm_up > min(3 * best, _LONG_TIMING):
        return warm_up
    spent: list[float] = []
    while sum(spent) < _SECONDS_A_CANDIDATE or len(spent) < _MIN_REPEATS:
        spent.append(_one_timing(step, ids))
    return statistics.median(spent)


def _one_timing(step: Step, ids: torch.Tensor) -> float:
    begin = time.perf_counter()
    step.feed(ids[:1], 1)
    step.feed(ids, _VERIFY_TOKENS)
    spent = time.perf_counter() - begin
    step.forget(1 + _VERIFY_TOKENS)
    return spent


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

"""The building blocks of the kernels, and the cache of their machine code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numba
import numpy as np
import pytest
import torch

from specviz.kernels import compiled as compiling
from specviz.kernels import readiness
from specviz.kernels.compiled import compiled, kernel
from specviz.kernels.kept_code import kernels_folder
from specviz.kernels.simd import narrow, widen
from specviz.kernels.softmax import exp, softmax
from specviz.kernels.threads import run_in_parallel


def double(x: int) -> int:
    return x + x


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder for cached kernels, independent of the test session's settings."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    numba.config.reload_config()
    kernels_folder.cache_clear()
    yield tmp_path
    kernels_folder.cache_clear()
    monkeypatch.undo()
    numba.config.reload_config()


def cached_files(home: Path) -> list[Path]:
    return [path for path in (home / "kernels").rglob("*") if path.is_file()]


def test_machine_code_is_cached_in_the_data_folder(home: Path) -> None:
    assert kernel(double)(21) == 42
    assert cached_files(home)
    again = kernel(double)
    assert again(21) == 42
    assert again.stats.cache_hits


def test_broken_cache_files_are_compiled_again(home: Path) -> None:
    kernel(double)(21)
    for path in cached_files(home):
        path.write_bytes(b"broken")
    assert kernel(double)(21) == 42


def test_kernels_run_without_a_writable_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", refuse)
    assert kernel(double)(21) == 42
    monkeypatch.setattr(compiling, "kernels_folder", lambda: "")
    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", refuse)
    assert kernel(double)(21) == 42
    assert not [path for path in cached_files(home) if path.suffix == ".nbc"]


def test_an_unwritable_home_gives_no_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("SPECVIZ_HOME", str(home / "file"))
    assert kernels_folder() == ""


def test_not_ready_if_the_compiler_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("LLVM does not know this processor")

    monkeypatch.setattr(readiness, "step", broken)
    readiness._work.cache_clear()
    assert not readiness.ready("float32")
    readiness._work.cache_clear()


def test_exp_has_a_small_relative_error() -> None:
    for x in np.linspace(-86, 86, 4001, dtype=np.float32):
        assert exp(x) == pytest.approx(math.exp(x), rel=3e-7)
    assert exp(np.float32(-1000)) < 1e-37
    assert exp(np.float32(0)) == 1.0


@compiled
def _softmax_of_rows(logits: Any, out: Any) -> None:
    for row in range(logits.shape[0]):
        softmax(logits[row], out[row])


@pytest.mark.parametrize("size", [1, 9, 1_024, 40_001])
def test_softmax_matches_torch(size: int) -> None:
    logits = torch.randn(3, size, generator=torch.Generator().manual_seed(size)) * 9 + 40
    logits[0, 1:] = -math.inf  # as after masking
    logits[1, size // 2] = -200.0
    out = np.empty((3, size), np.float32)
    _softmax_of_rows(logits.numpy(), out)
    exact = logits.double().softmax(-1).numpy()
    np.testing.assert_allclose(out, exact, rtol=5e-6, atol=1e-38)  # logit differences are rounded
    if size > 1:
        assert out[0, 1] == out[1, size // 2] == 0.0


@compiled
def _stored_and_read(like: Any, values: Any, out: Any) -> None:
    for i in range(values.shape[0]):
        out[i] = widen(narrow(like, values[i]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_rounds_to_nearest_even(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2000, generator=generator) * 10.0 ** torch.arange(-8, 4).repeat(167)[:2000]
    ties = torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 0.0, -0.0])
    values = torch.cat((values, ties, torch.tensor([70_000.0, -1e-9, float("inf")])))
    out = np.empty(len(values), np.float32)
    like = np.uint16(0) if dtype == torch.bfloat16 else np.int16(0)
    _stored_and_read(like, values.numpy(), out)
    assert torch.equal(torch.from_numpy(out), values.to(dtype).float())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_all_threads_run_and_errors_propagate(threads: int) -> None:
    seen: list[int] = []
    run_in_parallel(threads, seen.append)
    assert sorted(seen) == list(range(threads))

    def fail(thread: int) -> None:
        if thread == threads - 1:
            raise ArithmeticError("wrong")

    with pytest.raises(ArithmeticError):
        run_in_parallel(threads, fail)


def test_concurrent_calls_do_not_deadlock() -> None:
    """The calls share one pool, and each waits for all of its threads."""

    def meet(barrier: Barrier) -> Callable[[int], None]:
        def wait(_: int) -> None:
            barrier.wait(20)

        return wait

    others = [Thread(target=run_in_parallel, args=(3, meet(Barrier(3)))) for _ in range(4)]
    for each in others:
        each.start()
    for each in others:
        each.join(30)
        assert not each.is_alive()

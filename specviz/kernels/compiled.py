"""Compile functions with numba and cache the machine code in specviz's data folder.

``NUMBA_CACHE_DIR`` selects another folder. Without a writable folder, every process compiles again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache

from specviz.kernels.kept_code import kernels_folder

_FAST = {"nnan", "nsz", "contract", "reassoc"}
_EXACT = {"nnan", "nsz", "contract"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a part of a kernel; the compiler may reorder sums to vectorise them."""
    return numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(function)


def compiled_in_order(function: Callable[..., Any]) -> Any:
    """Compile a part of a kernel; its additions stay in source order."""
    return numba.njit(nogil=True, fastmath=_EXACT, error_model="numpy")(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; cache its machine code on disk where possible."""
    dispatcher = compiled(function)
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or kernels_folder()
    try:
        dispatcher._cache = _DiskCache(function)  # as numba's own ``enable_caching`` does
    except (RuntimeError, OSError):
        pass  # no writable place: compile in every process
    finally:
        settings.CACHE_DIR = before
    return dispatcher


class _DiskCache(FunctionCache):
    """A disk cache that falls back to compiling when a file is broken or cannot be written."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)

"""Compiling a function once for a machine: what is made is kept in specviz's data folder.

``NUMBA_CACHE_DIR`` names another folder. Where nothing can be kept, every process compiles anew.
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
    """A part of a kernel: sums may be taken in lanes, so their order is the compiler's."""
    return numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(function)


def compiled_in_order(function: Callable[..., Any]) -> Any:
    """A part of a kernel whose additions stand in the order that is written."""
    return numba.njit(nogil=True, fastmath=_EXACT, error_model="numpy")(function)


def kernel(function: Callable[..., Any]) -> Any:
    """A function that Python calls; its machine code is kept on disk where that is possible."""
    made = compiled(function)
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or kernels_folder()
    try:
        made._cache = _Kept(function)  # as numba's own ``enable_caching`` sets it
    except (RuntimeError, OSError):
        pass  # there is no place for it
    finally:
        settings.CACHE_DIR = before
    return made


class _Kept(FunctionCache):
    """Code on disk, which may be broken or not be written: then it is compiled anew."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)

"""Compile functions with numba and cache the machine code in specviz's data folder.

``NUMBA_CACHE_DIR`` selects another folder. Without a writable folder, every process compiles again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc

from specviz.kernels.kept_code import kernels_folder, sources_digest

_FAST = {"nnan", "nsz", "contract", "reassoc"}
_EXACT = {"nnan", "nsz", "contract"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function to be inlined in kernels; its sums may be reordered as vectors."""
    return _inlined(function, _FAST)


def compiled_in_order(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels inline; its additions stay in source order."""
    return _inlined(function, _EXACT)


def compiled_apart(function: Callable[..., Any]) -> Any:
    """Compile a large function that several kernels call and do not inline.

    The function calls only intrinsics, inlined functions and functions without arithmetic, and its
    additions stay in source order. So all kernels get equal results, although the code of each
    kernel includes a copy of the called function.
    """
    # By default, numba takes ``forceinline`` from the function that calls this one first.
    options = {"nogil": True, "error_model": "numpy", "forceinline": False}
    return numba.njit(fastmath=_EXACT, **options)(function)


def _inlined(function: Callable[..., Any], fastmath: set[str]) -> Any:
    """Return a function that is inlined into its callers.

    Without inlining, each kernel would have a copy of the function under the same name, and a
    process would use the copy that it loads first. The copies differ in rounding, because the
    compiler inlines other functions into them differently. So the results of a run would depend on
    which kernels the process compiled or loaded before.
    """
    options = {"nogil": True, "error_model": "numpy", "forceinline": True}
    return numba.njit(fastmath=fastmath, **options)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; cache its machine code on disk where possible."""
    dispatcher: Any = numba.njit(nogil=True, fastmath=_FAST, error_model="numpy")(function)
    with _cache_folder(), suppress(RuntimeError, OSError):  # no writable place: compile each time
        dispatcher._cache = _DiskCache(function)  # as numba's own ``enable_caching`` does
    return dispatcher


@contextmanager
def _cache_folder() -> Iterator[None]:
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or kernels_folder()
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def callback(name: str, signature: Any, function: Callable[..., Any]) -> int:
    """Compile a function that other kernels call by its address, and return the address.

    The cache finds the function by ``name``, since functions made by one factory differ only in
    their closures. The address stays valid as long as the process lives.
    """
    options = {"nopython": True, "error_model": "numpy", "fastmath": _EXACT}
    made: Any = CFunc(function, (signature.args, signature.return_type), locals={}, options=options)
    with _cache_folder(), suppress(RuntimeError, OSError):
        made._cache = _DiskCache(function, name)
    made.compile()
    callbacks.append(made)
    return made.address


callbacks: list[Any] = []  # keeps the compiled callbacks alive, and so their addresses valid


class _DiskCache(FunctionCache):
    """A disk cache that falls back to compiling when a file is broken or cannot be written."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        super().__init__(function)
        if name:  # functions that differ in their closures have files of their own
            cache: Any = self
            cache._cache_file = IndexDataCacheFile(
                cache_path=cache._cache_path,
                filename_base=f"{cache._impl.filename_base}.{name}",
                source_stamp=cache._impl.locator.get_source_stamp(),
            )

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return the key of a cache entry; it changes if the source of any kernel changes."""
        return (sig, codegen.magic_tuple(), sources_digest())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)

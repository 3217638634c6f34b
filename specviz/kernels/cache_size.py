"""The size of the processor's largest cache."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")  # on Linux
_UNKNOWN = 16 * 2**20
_SHARE = 3 / 8  # the rest is for activations, the text's cache and the other model


def stays_cached(num_bytes: int) -> bool:
    """Return whether weights of this size are probably still in a cache at the next step."""
    return num_bytes <= _SHARE * _largest_cache()


@cache
def _largest_cache() -> int:
    sizes = [_UNKNOWN]
    for path in _FOLDER.glob("index*/size"):
        with suppress(OSError, ValueError):
            sizes.append(1024 * int(path.read_text().strip().removesuffix("K")))
    return max(sizes[1:], default=_UNKNOWN)

"""Other processors: this one without some of its features."""

_FEATURES = {
    "avx-vnni": "+avx,+avx2,+f16c,+avx512vl,+avx512vnni",
    "avx2": "+sse4.2,+avx,+avx2,+fma,+f16c",
    "sse4.2": "+sse4.2",
    "sse2": "+sse2",
}


def masked(name: str) -> dict[str, str]:
    """Return environment variables with which numba compiles for another processor."""
    return {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": _FEATURES[name]}

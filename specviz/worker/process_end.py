"""Classify how a worker process ended, and describe it as an error."""

from __future__ import annotations

import signal

from specviz.errors import SpecvizError

DEVICE_FAULT = 87  # the exit code after a device fault
_FAULTS = (
    "CUDA error",
    "CUDA driver error",
    "Triton Error [CUDA]",
    "HIP error",
    "CUBLAS_STATUS",
    "CUDNN_STATUS",
    "cuDNN error",
)
_REMEDY = "The finished rounds are kept. Run again, or choose a smaller pair."


def unexpected_end(code: int | None) -> SpecvizError:
    """Return the error for a process that ended unexpectedly after it had sent ``Hello``."""
    return SpecvizError(f"The worker process {_ended(code)}.", remedy=_REMEDY)


def failed_start(code: int | None) -> SpecvizError:
    """Return the error for a process that never sent ``Hello``."""
    return SpecvizError(
        f"The worker process could not start: it {_ended(code)}.",
        remedy="Read the error in the terminal, fix its cause, and run again.",
    )


def is_device_fault(error: BaseException) -> bool:
    """Return whether the error makes the device unusable for this process."""
    names = (kind.__name__ for kind in type(error).__mro__)
    known = isinstance(error, RuntimeError) and any(each in str(error) for each in _FAULTS)
    return known or "AcceleratorError" in names


def _ended(code: int | None) -> str:
    if code is None:
        return "was never created"
    if code == DEVICE_FAULT:
        return "ended after a device fault; the terminal shows the error"
    if code >= 0:
        return f"ended by itself (exit code {code})"
    if -code == signal.SIGKILL:
        return "was killed (signal 9), possibly because memory ran out"
    return f"was ended by signal {-code} ({signal.strsignal(-code) or 'unknown'})"

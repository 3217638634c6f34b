"""How the worker process ended, in plain words, and what it cannot live on after."""

from __future__ import annotations

import signal

from specviz.errors import SpecvizError

DEVICE_FAULT = 87  # the exit code of a process whose device failed under it
_FAULTS = ("CUDA error", "HIP error", "CUBLAS_STATUS", "CUDNN_STATUS", "cuDNN error")
_REMEDY = "Its finished rounds are kept. Run again, or choose a smaller pair."


def unexpected_end(code: int | None) -> SpecvizError:
    """For a process that had been at work."""
    return SpecvizError(f"The worker process {_ended(code)}.", remedy=_REMEDY)


def failed_start(code: int | None) -> SpecvizError:
    """For a process that never said hello."""
    return SpecvizError(
        f"The worker process could not start: it {_ended(code)}.",
        remedy="Look in the terminal for the reason, mend it, and run again.",
    )


def is_device_fault(error: BaseException) -> bool:
    """After one of these nothing works on the device any more, in that process."""
    names = (kind.__name__ for kind in type(error).__mro__)
    told = isinstance(error, RuntimeError) and any(each in str(error) for each in _FAULTS)
    return told or "AcceleratorError" in names


def _ended(code: int | None) -> str:
    if code is None:
        return "was never there"
    if code == DEVICE_FAULT:
        return "met a fault of the device and was ended; the terminal has the text of it"
    if code >= 0:
        return f"ended by itself (exit code {code})"
    if -code == signal.SIGKILL:
        return "was killed (signal 9), perhaps because memory ran out"
    return f"was ended by signal {-code} ({signal.strsignal(-code) or 'unknown'})"

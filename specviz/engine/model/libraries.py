"""Silence transformers and the Hub client, and turn their errors into one-line messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from huggingface_hub.utils import logging as hub_logging

from specviz.engine.model.memory import is_out_of_memory
from specviz.errors import DeviceError, PairError, SpecvizError


@contextmanager
def loading_errors(name: str, part: str) -> Iterator[None]:
    """Turn exceptions that libraries raise inside the context into one-line errors.

    Args:
        part: what is being loaded, such as "tokenizer".
    """
    try:
        yield
    except SpecvizError:
        raise
    except ImportError as error:
        raise PairError(
            f"The {part} of {name} needs a package that is not installed: {_first_line(error)}.",
            remedy="Install the package, or choose another model.",
        ) from error
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory(name) from error
        raise PairError(
            f"The {part} of {name} cannot be loaded: {_first_line(error)}.",
            remedy="Copy or download the model again, or choose another model.",
        ) from error


def out_of_memory(name: str) -> DeviceError:
    return DeviceError(
        f"{name} does not fit in the memory of the device.",
        remedy="Choose a smaller model, a smaller dtype such as bfloat16, or another device.",
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".:")[:200]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Disable the libraries' progress bars and warnings inside the context."""
    from transformers.utils import logging as hf_logging

    verbosity, hub_verbosity = hf_logging.get_verbosity(), hub_logging.get_verbosity()
    bars, hub_bars = hf_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    hf_logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    disable_progress_bars()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        hub_logging.set_verbosity(hub_verbosity)
        if bars:
            hf_logging.enable_progress_bar()
        if hub_bars:
            enable_progress_bars()

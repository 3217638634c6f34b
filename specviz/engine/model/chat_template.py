"""A chat template is a program that came with a model: it runs apart, with bounds.

Templates may fail in any way, loop without end or build endless texts, also inside one call
that nothing in this process could interrupt. So it is rendered in a fork of this process, which
is ended when its time is over and cannot take more than a share of the memory. Where the
system cannot fork, it is rendered here.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from specviz.errors import PromptError
from specviz.record.numbers import SIZE

SECONDS = 5.0
_MEMORY = 512 * 2**20  # bytes beyond what this process has
_LONGEST = 16 * 10**6  # bytes of text
_STATM = Path("/proc/self/statm")
_DONE, _FAILED = b"+", b"-"


def render_chat(tokenizer: Any, name: str, text: str, *, seconds: float = SECONDS) -> str:
    """The user's text within the template of the model of that name, ready to continue."""

    def render() -> str:
        return tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )

    found = _apart(render, seconds) if hasattr(os, "fork") else _outcome(render)
    if found is None:
        _refuse(name, f"is not done after {seconds:g} s")
    if len(found) > _LONGEST:
        _refuse(name, f"writes more than {SIZE.shown(_LONGEST)}")
    said = found[1:].decode("utf-8", "replace")
    if not found.startswith(_DONE):
        _refuse(name, f"fails: {said or 'it ended the process that rendered it'}")
    return said


def _refuse(name: str, how: str) -> NoReturn:
    raise PromptError(
        f"The chat template of {name} {how.rstrip('.')}.",
        remedy="Turn the chat template off, or choose another instruct model.",
    )


def _outcome(render: Callable[[], str]) -> bytes:
    """The text, or what went wrong, each after its sign."""
    try:
        return _DONE + render().encode("utf-8", "replace")
    except MemoryError:
        return _FAILED + b"it needs too much memory"
    except Exception as error:  # whatever the template raises
        lines = str(error).strip().splitlines()
        return _FAILED + (lines[0] if lines else type(error).__name__).encode()[:200]


def _apart(render: Callable[[], str], seconds: float) -> bytes | None:
    """The outcome in a process of its own; None if it took too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(render, writing, seconds)
    os.close(writing)
    try:
        return _received(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _be_the_child(render: Callable[[], str], writing: int, seconds: float) -> NoReturn:
    """Nothing of the parent may be cleaned up here: not its tensors, nor its open files."""
    try:
        gc.disable()
        _bound(seconds)
        left = memoryview(_outcome(render))
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _bound(seconds: float) -> None:
    """Limits that hold even if the parent is gone."""
    import resource  # not there on every system that cannot fork either

    most = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _STATM.exists():
        room = int(_STATM.read_text().split()[0]) * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (room, room))


def _received(reading: int, deadline: float) -> bytes | None:
    received = bytearray()
    while len(received) <= _LONGEST:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(reading, 2**16)
        if not piece:
            break
        received += piece
    return bytes(received)

"""Render chat templates, which are untrusted programs, in a child process with limits.

A template may fail in any way, loop forever or build endless texts. This process cannot interrupt
the call that renders a template. So a forked process renders it, with a time limit and a memory
limit. Without ``os.fork``, this process renders the template.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from specviz.errors import PromptError
from specviz.record.conversations import Message
from specviz.record.numbers import SIZE

SECONDS = 5.0
_MEMORY = 512 * 2**20  # bytes that the child may use beyond this process's memory
_LONGEST = 16 * 10**6  # bytes of text
_STATM = Path("/proc/self/statm")
_DONE, _FAILED = b"+", b"-"


def render_chat(
    tokenizer: Any,
    name: str,
    messages: Sequence[Message],
    *,
    answered: bool = False,
    seconds: float = SECONDS,
) -> str:
    """Return the messages as text, formatted by the model's chat template.

    The text ends with the generation prompt unless ``answered`` is true.

    Raises:
        PromptError: the template fails, takes too long or writes too much.
    """

    given = [{"role": each.role, "content": each.content} for each in messages]

    def render() -> str:
        return tokenizer.apply_chat_template(
            given, add_generation_prompt=not answered, tokenize=False
        )

    found = _in_child(render, seconds) if hasattr(os, "fork") else _result(render)
    if found is None:
        _refuse(name, f"did not finish within {seconds:g} s")
    if len(found) > _LONGEST:
        _refuse(name, f"writes more than {SIZE.shown(_LONGEST)}")
    output = found[1:].decode("utf-8", "replace")
    if not found.startswith(_DONE):
        _refuse(name, f"fails: {output or 'the template ended its process'}")
    return output


def _refuse(name: str, how: str) -> NoReturn:
    raise PromptError(
        f"The chat template of {name} {how.rstrip('.')}.",
        remedy="Turn the chat template off, or choose another instruct model.",
    )


def _result(render: Callable[[], str]) -> bytes:
    """Return ``_DONE`` and the rendered text, or ``_FAILED`` and an error message."""
    try:
        return _DONE + render().encode("utf-8", "replace")
    except MemoryError:
        return _FAILED + b"it needs too much memory"
    except Exception as error:  # whatever the template raises
        lines = str(error).strip().splitlines()
        return _FAILED + (lines[0] if lines else type(error).__name__).encode()[:200]


def _in_child(render: Callable[[], str], seconds: float) -> bytes | None:
    """Render in a child process; return the result, or None if rendering took too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _run_child(render, writing, seconds)
    os.close(writing)
    try:
        return _received(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run_child(render: Callable[[], str], writing: int, seconds: float) -> NoReturn:
    """Render, write the result to the pipe ``writing``, and exit.

    Nothing is cleaned up, because the tensors and open files belong to the parent.
    """
    try:
        gc.disable()
        _limit_resources(seconds)
        left = memoryview(_result(render))
        while left:
            left = left[os.write(writing, left) :]
    finally:
        os._exit(0)


def _limit_resources(seconds: float) -> None:
    """Limit this process's CPU time and memory.

    The limits stay in force if the parent process ends first.
    """
    import resource  # missing on systems without fork

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

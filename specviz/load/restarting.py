"""Restart an engine with the user's command.

The command must end the old engine and start the new one in the background. It must not return
before the old engine has ended. The command is run without a shell. If it fails, the last line on
standard error is reported; all other output is discarded.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import IO

from specviz.errors import ConfigError, ServerError
from specviz.load.order import GAMMA
from specviz.measure.stoppable import StoppableWork
from specviz.record.load_run import LoadLane
from specviz.record.server_run import Counters, ServerInfo
from specviz.servers.address import BASELINE_KEY, SERVER_KEY, KeyName
from specviz.servers.counters import read_counters, went_back
from specviz.servers.finding import find_server

READY_WITHIN = 600.0  # seconds
_EVERY = 0.3
_LONGEST = 200  # characters of the command's last line


def key_of(lane: LoadLane) -> KeyName:
    return BASELINE_KEY if lane.baseline else SERVER_KEY


class EngineStarter(StoppableWork):
    """Runs the restart command and waits until the engine answers again."""

    def __init__(self, *, allow_remote: bool, within: float = READY_WITHIN) -> None:
        super().__init__()
        self._allow_remote, self._within = allow_remote, within
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        super().stop()
        if (process := self._process) is not None:
            _end(process)

    def restart(self, command: str, lane: LoadLane, gamma: int | None) -> ServerInfo:
        """Run the restart command with γ; return the engine's description after the restart."""
        before = self._counters(lane)
        self._run(words_of(command, gamma))
        info = self.wait_for(lane)
        after = self._counters(lane)
        if before and after and (before.generated or 0) > 0 and not went_back(before, after):
            raise ServerError(
                f"{info.address} was not restarted by the command: its counters did not decrease.",
                remedy="The command must not return before the old engine has ended.",
            )
        return info

    def wait_for(self, lane: LoadLane) -> ServerInfo:
        """Wait until the engine answers; return its description.

        Raises:
            ServerError: The engine did not answer in time.
        """
        until = time.monotonic() + self._within
        while True:
            self._check_stop()
            try:
                return find_server(
                    lane.info.address, model=lane.info.model, allow_remote=self._allow_remote,
                    key=key_of(lane), begin=self._begin,
                )  # fmt: skip
            except ServerError:
                self._check_stop()
                if time.monotonic() >= until:
                    raise
                time.sleep(_EVERY)
            finally:
                self._parts.clear()

    def _counters(self, lane: LoadLane) -> Counters | None:
        try:
            return read_counters(lane.info, allow_remote=self._allow_remote, key=key_of(lane))
        except ServerError:
            return None

    def _run(self, words: list[str]) -> None:
        with tempfile.TemporaryFile() as errors:
            self._check_stop()
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise ServerError(
                    f"The restart command cannot be run: {error.strerror or error}.",
                    remedy="Give the path of a program; put several commands into a script.",
                ) from None
            self._process = process
            code = self._wait(process)
            self._process = None
            self._check_stop()
            if code:
                raise ServerError(
                    f"The restart command failed with exit code {code}{_last_line(errors)}.",
                    remedy="Run the command by hand to see all of its output.",
                )

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        until = time.monotonic() + self._within
        while time.monotonic() < until and not self._stopped:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_EVERY)
        _end(process)
        self._check_stop()
        raise ServerError(
            f"The restart command did not return within {self._within:g} s.",
            remedy="Let the command start the engine in the background.",
        )


def words_of(command: str, gamma: int | None) -> list[str]:
    """Split the command into words, with γ in place of ``{gamma}``."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(
            f"The restart command cannot be split into words: {str(error).lower()}.",
            remedy="Quote the command as in a shell.",
        ) from None
    if not words:
        raise ConfigError("The restart command is empty.", remedy="Give a program to run.")
    return [each.replace(GAMMA, str(gamma)) for each in words]


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    last = next((each.strip() for each in reversed(lines) if each.strip()), "")
    shown = "".join(each if each.isprintable() else " " for each in last)[:_LONGEST]
    return f": {shown.rstrip('.')}" if shown else ""

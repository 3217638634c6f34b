"""Runs a pair outside this process: the command line does the work and hands back a trace."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.store import load_trace
from specviz.trace import RunConfig, Trace

_ROOT = Path(__file__).parent.parent.parent
_TIME_LIMIT_SECONDS = 600
_NUMBERS = ("gamma", "temperature", "top_k", "top_p", "max_new_tokens", "seed", "epsilon")
_CHOICES = ("drafter", "rule", "residual")
_FLAGS = ("ignore_eos", "chat")


class RunError(SpecvizError):
    """A run that the other process gave up, in its own words."""


def run_pair(prompt: str, config: RunConfig) -> Trace:
    """Run the embedded pair and return the whole trace."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trace.json"
        try:
            done = subprocess.run(
                [*run_command(config), "--out", str(out)],
                input=f"{prompt}\n",  # the line end that the command takes off again
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                cwd=_ROOT,
                timeout=_TIME_LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(
                f"The run took longer than {_TIME_LIMIT_SECONDS} s.", remedy="Ask for fewer tokens."
            ) from error
        if done.returncode != 0:
            raise RunError(_last_line(done.stderr), remedy="")
        return load_trace(out)


def run_command(config: RunConfig) -> list[str]:
    """The command line of a run with the full record, its prompt from standard input."""
    options = [f"{_option(name)}={getattr(config, name)}" for name in (*_NUMBERS, *_CHOICES)]
    options += [_option(name) for name in _FLAGS if getattr(config, name)]
    options += [f"--stop={text}" for text in config.stop]
    return [sys.executable, "-m", "specviz", "run", "-", "--json", *options]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "The run ended without a word."

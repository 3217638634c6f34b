"""Runs a pair outside this process: the command line does the work and hands back a trace."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.store import load_trace
from specviz.trace import RunConfig, Trace

_TIME_LIMIT_SECONDS = 600


class RunError(SpecvizError):
    """A run that the other process gave up, in its own words."""


def run_pair(prompt: str, config: RunConfig) -> Trace:
    """Run the embedded pair and return the whole trace."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trace.json"
        try:
            done = subprocess.run(
                [*_command(config), "--out", str(out)],
                input=prompt,
                capture_output=True,
                text=True,
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


def _command(config: RunConfig) -> list[str]:
    settings = {
        "--gamma": config.gamma,
        "--temperature": config.temperature,
        "--max-new-tokens": config.max_new_tokens,
        "--seed": config.seed,
        "--drafter": config.drafter,
    }
    options = [str(part) for pair in settings.items() for part in pair]
    return [sys.executable, "-m", "specviz", "run", "-", "--json", *options]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "The run ended without a word."

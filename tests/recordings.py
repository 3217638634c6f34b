"""Record the results that pages show before the first one of the user: `make recordings`.

They are made with the program's own commands. The machine should be quiet, because the recordings
show its measurements.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from specviz.record.prompts import read_presets

ASSETS = Path(__file__).parents[1] / "assets"
SIZE = "90M"  # of the simulated target
_EARLIER_RUNS = 3  # in other processes: their step costs explain the recorded run


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        for seed in range(_EARLIER_RUNS, -1, -1):
            table = ["--measure-costs"] if seed == _EARLIER_RUNS else []
            _specviz(home, "run", read_presets()[0].text, "--target-body", SIZE, "--seed",
                     str(seed), "--no-keep", "--out", str(ASSETS / "first_trace.json"),
                     *table)  # fmt: skip


def _specviz(home: str, *arguments: str) -> None:
    environment = {**os.environ, "SPECVIZ_HOME": home, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "specviz", *arguments], env=environment, check=True)


if __name__ == "__main__":
    main()

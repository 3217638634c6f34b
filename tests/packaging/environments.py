"""Virtual environments outside the checkout with the wheel: without torch, and with everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from specviz.installation import DISTRIBUTION

_INSTALL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, and a data folder outside it."""

    folder: Path
    home: Path

    @property
    def program(self) -> str:
        return str(self.folder / "bin" / "specviz")

    @property
    def packages(self) -> Path:
        return Path(self._python("import sysconfig; print(sysconfig.get_path('purelib'))"))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of specviz, in the folder of the environment."""
        return subprocess.run(
            [self.program, *words], cwd=self.folder, capture_output=True, text=True,
            env=os.environ | {"SPECVIZ_HOME": str(self.home)}, timeout=300, check=False,
        )  # fmt: skip

    def pip(self, *words: str) -> None:
        done = subprocess.run(
            [str(self.folder / "bin" / "python"), "-m", "pip", *words],
            capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        self.pip("uninstall", "--quiet", "--yes", DISTRIBUTION)

    def installed(self) -> set[str]:
        """Return the names of the distributions in this environment."""
        code = (
            "import json; from importlib.metadata import distributions; "
            "print(json.dumps([each.name for each in distributions()]))"
        )
        return set(json.loads(self._python(code)))

    def _python(self, code: str) -> str:
        python = str(self.folder / "bin" / "python")
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.strip()


def light_environment(wheel: Path, folder: Path) -> Environment:
    """Install the wheel and its dependencies."""
    made = _environment(folder)
    made.pip("install", "--quiet", "--no-compile", str(wheel))
    return made


def full_environment(wheel: Path, folder: Path) -> Environment:
    """Install the wheel only; its dependencies are those of the tests' environment."""
    made = _environment(folder)
    made.pip("install", "--quiet", "--no-compile", "--no-deps", str(wheel))
    shared = "\n".join(each for each in sys.path if Path(each).name == "site-packages")
    (made.packages / "shared.pth").write_text(shared, encoding="utf-8")
    return made


def _environment(folder: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (folder / "home").mkdir()
    return Environment(folder / "venv", folder / "home")

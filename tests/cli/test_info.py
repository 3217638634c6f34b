"""``info``: what it prints, what it leaves out, and how fast it is."""

from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import specviz
from specviz import ROOT
from specviz.cli import info, machine_facts, main, without_names
from specviz.cli.without_names import short_path
from specviz.store import Library
from tests.local_models.conftest import home, pair
from tests.packaging.test_start import run_light

__all__ = ["home", "pair"]  # fixtures of this module

HEAVY = "{'torch', 'transformers', 'numba', 'streamlit'}"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Give the user, the machine and the home folder names; return the home folder."""
    folder = tmp_path / "ada.lovelace"
    folder.mkdir()
    monkeypatch.setattr(getpass, "getuser", lambda: "ada.lovelace")
    monkeypatch.setattr(platform, "node", lambda: "analytical.engine.example")
    monkeypatch.setattr(Path, "home", lambda: folder)
    for name in ("USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    forget_names()
    yield folder
    forget_names()


def forget_names() -> None:
    without_names._home.cache_clear()
    without_names._names.cache_clear()


def facts(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["info", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_describes_the_installation_and_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "data"))
    found = facts(capsys)
    assert (found["kind"], found["schema"]) == ("specviz.info", 1)
    assert found["specviz"] == specviz.__version__
    assert found["packages"]["torch"]
    assert found["torch_build"]
    assert found["torch_devices"] is None
    assert found["processor"]["threads"] >= 1
    assert found["memory"]["free_bytes"] < found["memory"]["total_bytes"]
    assert found["data"]["runs"] == 0
    assert "SPECVIZ_HOME" in found["settings"]
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    for word in ("torch", "streamlit", "kernels", "processor", "GPU", "memory", "data", "models"):
        assert f"\n{word}" in shown


def test_counts_runs_without_changing_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    assert Library().count() == 0
    before = {each.name: each.stat().st_mtime_ns for each in tmp_path.glob("runs.db")}
    assert facts(capsys)["data"]["runs"] == 0
    assert {each.name: each.stat().st_mtime_ns for each in tmp_path.glob("runs.db")} == before
    (tmp_path / "runs.db").write_bytes(b"not a library")
    assert facts(capsys)["data"]["runs"] is None
    assert main(["info"]) == 0
    assert "library not readable" in capsys.readouterr().out


def test_names_no_person_no_machine_and_no_path(
    named: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(named / "private place" / "data"))
    models = [{"name": "ada.lovelace/notes-1B", "family": "llama", "size": "1 B",
               "weights": "GGUF", "from": "analytical"}]  # fmt: skip
    monkeypatch.setattr(machine_facts, "_models", lambda: models)
    for arguments in (["info"], ["info", "--json"]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        for private in ("lovelace", "analytical", str(named), str(named.parent)):
            assert private not in shown.lower()
        assert "~/private place/data" in shown
        assert "USER/notes-1B" in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/class/models/tiny", "tiny"),
        ("torch cannot be imported: /opt/env/lib/x.so is missing", "torch cannot be imported: x.so"
         " is missing"),
        (r"C:\Users\someone\models\tiny", "tiny"),
        ("org/model", "org/model"),
        ("Ada.Lovelace's engine on ANALYTICAL", "USER's engine on HOST"),
    ],
)  # fmt: skip
def test_paths_and_names_are_replaced(named: Path, text: str, expected: str) -> None:
    assert without_names.without_names({"x": [text]}) == {"x": [expected]}


def test_only_folders_below_home_show_their_place(named: Path) -> None:
    assert short_path(named / "a" / "b") == "~/a/b"
    assert short_path(Path("/srv/secret/place")) == "place"


def test_models_are_listed_without_their_folders(
    home: Path, pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "--models", str(pair), "--json"]) == 0
    found = facts(capsys)
    by_name = {each["name"]: each for each in found["models"]}
    assert {"big", "tiny-f32"} <= by_name.keys()
    text = json.dumps(found)
    assert str(pair.parent) not in text
    assert pair.name in {each["from"] for each in found["models"]}


def test_loads_nothing_heavy_and_takes_less_than_two_seconds(tmp_path: Path) -> None:
    code = (
        "import sys; from specviz.cli import main; code = main(['info']);"
        f"loaded = {HEAVY} & set(sys.modules); sys.exit(f'loaded {{loaded}}' if loaded else code)"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"SPECVIZ_HOME": str(tmp_path / "none")},
    )  # fmt: skip
    taken = time.monotonic() - began
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "none").exists() or not (tmp_path / "none" / "kernels").exists()
    assert taken < 2 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def test_works_without_torch(tmp_path: Path) -> None:
    assert run_light("info", home=tmp_path) == ["0"]


def test_the_file_of_torch_names_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(machine_facts, "find_spec", lambda _name: Spec)
    file = tmp_path / "version.py"
    for cuda, hip, expected in (
        ("None", "None", "CPU"), ("'12.8'", "None", "CUDA 12.8"), ("None", "'6.4.1'", "ROCm 6.4.1")
    ):  # fmt: skip
        file.write_text(
            f"__version__ = '2.13.0'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n",
            encoding="utf-8",
        )
        assert machine_facts.torch_build() == expected
    monkeypatch.setattr(machine_facts, "find_spec", lambda _name: None)
    assert machine_facts.torch_build() is None


def test_a_driver_that_hangs_or_fails_shows_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA X, 1024, 570.1'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (gpu,) = machine_facts._gpus()
    assert gpu == {"name": "NVIDIA X", "memory_bytes": 2**30, "driver": "570.1"}
    assert info._gpu(gpu) == "NVIDIA X, 1.07 GB, driver 570.1"
    monkeypatch.setattr(machine_facts, "_GPU_SECONDS", 0.2)
    for body in ("sleep 30", "exit 9"):
        program.write_text(f"#!/bin/sh\nexec {body}\n", encoding="utf-8")
        assert list(machine_facts._asked_gpus()) == []

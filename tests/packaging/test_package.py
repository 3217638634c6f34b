"""The package: its metadata, its files, and where an installed package finds them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import specviz
from specviz import ROOT
from specviz.installation import DISTRIBUTION

OF_DEVELOPERS = {"requirements-dev.txt", "requirements-heads.txt", "requirements-vllm.txt"}
ON_PYPI = 100 * 2**20  # bytes; the largest file that PyPI takes
# Modules that read their own file: for ROOT, and for a digest of the kernels' sources.
READ_THEIR_FILE = {"specviz/__init__.py", "specviz/kernels/kept_code.py"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def pins() -> Iterator[tuple[str, Requirement]]:
    for path in sorted(ROOT.glob("requirements*.txt")):
        if path.name in OF_DEVELOPERS:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            text = line.partition("#")[0].strip()
            if text and not text.startswith("-"):
                yield path.name, Requirement(text)


def ranges(project: dict[str, Any]) -> dict[str, Requirement]:
    extras = project["optional-dependencies"].values()
    listed = [*project["dependencies"], *(each for extra in extras for each in extra)]
    found = [Requirement(each) for each in listed]
    assert len(found) == len({each.name for each in found})  # each in one place
    return {each.name: each for each in found}


def test_every_pinned_package_is_a_dependency_whose_range_contains_the_pin(
    project: dict[str, Any],
) -> None:
    allowed = ranges(project)
    assert len(list(pins())) > 12
    for file, pin in pins():
        (exact,) = pin.specifier
        assert exact.operator == "==", f"{file}: {pin}"
        assert allowed[pin.name].specifier.contains(exact.version), f"{file}: {pin}"
        assert str(allowed[pin.name].marker) == str(pin.marker), f"{file}: {pin}"


def test_every_dependency_but_accelerate_is_pinned(project: dict[str, Any]) -> None:
    assert ranges(project).keys() - {pin.name for _, pin in pins()} == {"accelerate"}


def test_the_base_has_nothing_that_runs_models(project: dict[str, Any]) -> None:
    base = {Requirement(each).name for each in project["dependencies"]}
    run = {Requirement(each).name for each in project["optional-dependencies"]["run"]}
    assert run >= {"torch", "transformers", "accelerate", "numba"}
    assert not base & run
    assert {"run", "chat", "ray"} <= project["optional-dependencies"].keys()


def test_the_version_and_the_name_have_one_source(wheel: Path, project: dict[str, Any]) -> None:
    assert (project["name"], project["dynamic"]) == (DISTRIBUTION, ["version"])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = message_from_string(archive.read(name).decode())
        scripts = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert (metadata["Name"], metadata["Version"]) == (DISTRIBUTION, specviz.__version__)
    assert "specviz = specviz.__main__:start" in scripts


def test_the_wheel_has_the_code_the_pages_and_the_assets_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "specviz", "app.py", "pages", "assets", ".streamlit"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    expected = {
        each if each.startswith("specviz/") else f"specviz/dashboard/{each}" for each in tracked
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {each for each in archive.namelist() if ".dist-info/" not in each}
    assert found == expected
    assert wheel.stat().st_size < ON_PYPI


def test_an_installed_package_finds_its_files_inside_itself(unpacked: Path) -> None:
    code = (
        "import json, os; from specviz import ASSETS, IS_INSTALLED, ROOT; "
        "from specviz.folders import child_environment; "
        "from specviz.record.prompts import read_presets; "
        "own = child_environment().get('PYTHONPATH') == os.environ['PYTHONPATH']; "
        "print(json.dumps([str(ROOT), IS_INSTALLED, ASSETS.is_dir(), own, len(read_presets())]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=unpacked, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(unpacked)}, check=True,
    )  # fmt: skip
    root, installed, has_assets, own, presets = json.loads(done.stdout)
    assert Path(root) == unpacked / "specviz" / "dashboard"
    assert installed
    assert has_assets
    assert own
    assert presets


def test_in_a_checkout_the_files_are_in_its_folder() -> None:
    assert Path(__file__).parents[2] == ROOT
    assert not specviz.IS_INSTALLED


def test_only_root_is_computed_from_the_place_of_a_module() -> None:
    """A module that reads ``__file__`` of its own would look for files where none are installed."""
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "specviz").rglob("*.py")
        if re.search(r"(?<![\w.])__file__", path.read_text(encoding="utf-8"))
    }
    assert files == READ_THEIR_FILE

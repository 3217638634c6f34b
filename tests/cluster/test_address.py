"""Parsing of ``--on``, and the command line without Ray."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specviz.cli import main
from specviz.cluster import connection
from specviz.cluster.address import cluster_address
from specviz.errors import ConfigError


@pytest.mark.parametrize(
    ("typed", "address"),
    [("ray", ""), ("ray:10.0.0.5:6379", "10.0.0.5:6379"), ("ray:[::1]:6379", "[::1]:6379")],
)
def test_the_address_is_optional(typed: str, address: str) -> None:
    assert cluster_address(typed) == address


@pytest.mark.parametrize("typed", ["", "dask", "ray:", "ray:host", "ray:a b:1", "ray:http://x:1"])
def test_anything_else_is_refused(typed: str) -> None:
    with pytest.raises(ConfigError, match="Use ray, or ray:HOST:PORT"):
        cluster_address(typed)


def test_without_ray_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "has_ray", lambda: False)
    lanes = ["--lane", "gamma=2", "--lane", "gamma=4"]
    assert main(["compare", *lanes, "--prompt", "Once", "--on", "ray"]) == 2
    error = capsys.readouterr().err
    assert error == "error: Ray is not installed. Install it with `make ray`.\n"
    assert main(["compare", *lanes, "--prompt", "Once", "--on", "slurm"]) == 2
    assert main(["tune", "--on", "ray"]) == 2
    assert capsys.readouterr().err.endswith(error)


def test_served_models_are_refused_on_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    served = ["--target", "http://127.0.0.1:9", "--draft", "http://127.0.0.1:9"]
    assert main(["tune", *served, "--on", "ray"]) == 2
    assert "--on needs locally loaded models" in capsys.readouterr().err


def test_importing_the_package_does_not_import_ray() -> None:
    code = (
        "import sys, specviz.cli, specviz.cluster.cluster_maker, specviz.cluster.pool; "
        "print('ray' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]

"""Starting without a command: port, browser, end; what a light installation refuses; a clash."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import specviz
from specviz import ROOT, installation
from specviz.cli import main
from specviz.cli.free_port import free_port, is_allowed, is_loopback
from specviz.errors import ConfigError
from tests.packaging.dashboards import Dashboard, bound_socket, still_running, wait_until

SPECVIZ = [sys.executable, "-m", "specviz"]
LIGHT = """
import sys
missing = ("torch", "transformers", "numba", "gguf", "huggingface_hub", "tokenizers")
sys.modules.update(dict.fromkeys(missing))
from specviz.cli import main
for line in sys.argv[1:]:
    code = main(line.split())
    print(code, file=sys.stderr)
"""
WITHOUT_ENGINE = "error: Models cannot be loaded without torch, transformers"


def run_light(*commands: str, home: Path) -> list[str]:
    """Run commands in a process that cannot import what models need.

    Returns:
        The lines on standard error, with each command's exit code on a line after its errors.
    """
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *commands], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"SPECVIZ_HOME": str(home)}, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


# The port


def test_a_port_in_use_gives_the_next_one() -> None:
    with bound_socket() as taken:
        port = taken.getsockname()[1]
        assert port < free_port("127.0.0.1", port) < port + 100


def test_a_free_port_is_used() -> None:
    with bound_socket() as taken:
        port = taken.getsockname()[1]
    assert free_port("127.0.0.1", port) == port


def test_after_the_highest_port_there_is_none() -> None:
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 65535))
            taken.listen()
        except OSError:
            pass  # another program uses it, which serves the test as well
        with pytest.raises(ConfigError, match="The ports 65535 to 65535 are in use"):
            free_port("127.0.0.1", 65535)


@pytest.mark.parametrize("host", ["203.0.113.77", "no such host", "::g"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="is not an address of this machine"):
        free_port(host, 8501)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("pc", False)],
)
def test_only_loopback_addresses_open_the_browser(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("192.168.1.5", True), ("::1", True), ("::", True), ("pc.example", False), ("fe80::1", False)],
)
def test_only_other_names_are_added_to_the_allowed_hosts(host: str, expected: bool) -> None:
    assert is_allowed(host) is expected


# The command line


@pytest.mark.parametrize("port", ["0", "-1", "65536"])
def test_an_invalid_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--port={port}"]) == 2
    assert capsys.readouterr().err.startswith(f"error: --port is {port}.")


@pytest.mark.parametrize("option", ["--port=1", "--host=x", "--token=x", "--no-browser"])
def test_options_of_the_dashboard_do_not_precede_a_command(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option, "costs"]) == 2
    name = option.partition("=")[0]
    assert f"{name} before a command is an option of the dashboard" in capsys.readouterr().err


def test_a_missing_folder_of_models_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    assert main(["--models", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_help_lists_the_commands_and_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("--host", "--port", "--models", "--home", "--token", "run", "attach", "load"):
        assert word in shown


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"specviz {specviz.__version__}\n"


# A dashboard


def test_it_starts_at_the_next_port_opens_the_browser_and_ends_within_two_seconds(
    tmp_path: Path,
) -> None:
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with bound_socket() as taken:
        port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{free_port('127.0.0.1', port)}"
        environment = {"BROWSER": str(program), "PYTHONPATH": str(ROOT)}
        with Dashboard(SPECVIZ, tmp_path / "home", port, **environment) as dashboard:
            assert dashboard.started(url), dashboard.errors
            wait_until(opened.exists)
            wait_until(lambda: len(dashboard.descendants()) >= 2)  # the server and the worker
            assert opened.read_text(encoding="utf-8") == f"{url}\n"
            children = dashboard.descendants()
            assert dashboard.interrupt() < 2
            assert dashboard.process.returncode == 0
            assert not still_running(children)
    assert dashboard.errors == f"Port {port} is in use; the dashboard uses port {url[17:]}.\n"


def test_ctrl_c_during_the_start_ends_it(tmp_path: Path) -> None:
    with bound_socket() as taken:
        port = taken.getsockname()[1]
    options = ("--no-browser",)
    with Dashboard(SPECVIZ, tmp_path / "home", port, *options, PYTHONPATH=str(ROOT)) as dashboard:
        wait_until(lambda: bool(dashboard.descendants()))
        children = dashboard.descendants()
        assert dashboard.interrupt() < 2
        assert not still_running(children)


# Without the engine


def test_without_torch_a_command_says_what_to_install(tmp_path: Path) -> None:
    commands = ("run Once", "tune --prompt x", "audit", "bench --quantised", "train --out x")
    lines = run_light(*commands, home=tmp_path)
    assert lines[1::2] == ["2"] * len(commands)
    for line in lines[::2]:
        assert line.startswith(WITHOUT_ENGINE)
        assert line.endswith("Run `make run`.")


def test_without_torch_traces_open_and_servers_are_asked(tmp_path: Path) -> None:
    page = tmp_path / "replay.html"
    trace = str(ROOT / "assets" / "first_trace.json")
    lines = run_light(
        f"show {trace}",
        f"show {trace} --html {page}",
        *(f"{command} http://127.0.0.1:9" for command in ("attach", "load")),
        home=tmp_path,
    )
    assert page.is_file()
    assert [line for line in lines if line.isdigit()] == ["0", "0", "2", "2"]
    assert "\n".join(lines).count("cannot be reached") == 2


def test_an_installed_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "INSTALL_ENGINE", "pip install 'specviz-decoding[run]'")
    monkeypatch.setattr(installation, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"Run `pip install 'specviz-decoding\[run\]'`"):
        installation.require_engine()


# Another package of this name


def test_a_package_with_the_same_module_is_reported_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "specviz-0.8.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Name: specviz\nVersion: 0.8\n", encoding="utf-8")
    (other / "RECORD").write_text("specviz/__init__.py,,\n", encoding="utf-8")
    done = subprocess.run(
        [*SPECVIZ, "costs"], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: The package specviz is installed, too")
    assert done.stderr.count("\n") == 1

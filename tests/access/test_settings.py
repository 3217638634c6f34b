"""The settings file: its values, its errors, and reading it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specviz import ROOT
from specviz.access import settings as settings_module
from specviz.access.roles import Role
from specviz.access.setting_values import DEFAULTS, Limits, Settings
from specviz.access.settings import (
    SETTINGS,
    SettingsFile,
    parse_settings,
    read_settings,
    the_settings,
    the_settings_file,
)
from specviz.cli import main
from specviz.errors import ConfigError

FULL = """
[people]
"Ada@Uni.example" = "owner"
"*@uni.example" = "student"
others = "viewer"

[limits]
tokens = 100
request_body = "2.5 MB"

[models]
folders = ["/srv/models", "~/models"]
hub = false
largest = "8 GB"

[servers]
addresses = ["https://gpu.example:8000", "10.0.0.0/24", "localhost"]

[library]
quota = 5_000_000
"""


def parsed(text: str) -> Settings:
    return parse_settings(text, "specviz.toml")


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_section_is_read() -> None:
    found = parsed(FULL)
    assert found.limits == Limits(tokens=100, request_body=2_500_000)
    assert found.models.folders == ("/srv/models", os.path.expanduser("~/models"))
    assert (found.models.hub, found.models.largest, found.quota) == (False, 8 * 10**9, 5_000_000)
    assert found.servers is not None
    assert [each.text for each in found.servers][1:] == ["10.0.0.0/24", "localhost"]


def test_an_empty_file_means_the_defaults() -> None:
    assert parsed("") == parsed("[limits]\n[servers]\n[people]") == DEFAULTS


def test_the_example_is_valid_and_shows_the_defaults() -> None:
    example = (ROOT / "assets" / "settings.toml").read_text(encoding="utf-8")
    assert parsed(example) == DEFAULTS
    every = "\n".join(line.removeprefix("# ") for line in example.splitlines()[4:])
    assert parsed(every).quota == 2 * 10**9


@pytest.mark.parametrize(
    ("email", "role"),
    [
        ("ada@uni.example", Role.OWNER), ("ADA@UNI.EXAMPLE", Role.OWNER),
        ("bob@uni.example", Role.STUDENT), ("bob@cs.uni.example", Role.VIEWER),
        ("bob@notuni.example", Role.VIEWER), ("x@y@uni.example", None), ("", None),
        ("*@uni.example", None), ("uni.example", None), ("@uni.example", None),
        ("a b@uni.example", None), ("others", None), (" ada@uni.example", None),
        ("ada@uni.example\n", None), ("ada\0@uni.example", None), ("ada\u202e@uni.example", None),
    ],
)  # fmt: skip
def test_roles(email: str, role: Role | None) -> None:
    assert parsed(FULL).role_of(email) == role


def test_letters_that_only_look_alike_are_other_people() -> None:
    found = parsed('[people]\n"kim@uni.example" = "owner"\n"*@kim.example" = "owner"')
    assert found.role_of("Kim@uni.example") == Role.OWNER
    kelvin = "\u212aim"  # its lower case is "kim"
    assert kelvin.lower() == "kim"
    assert found.role_of(f"{kelvin}@uni.example") is None
    assert found.role_of(f"ada@{kelvin}.example") is None


def test_nobody_has_a_role_by_default() -> None:
    assert DEFAULTS.role_of("ada@uni.example") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\ntokens = 0", ["[limits] tokens is 0", "whole number from 1 to 1,000,000"]),
        ("[limits]\ntokens = true", ["tokens is True"]),
        ("[limits]\ntokens = '5'", ["tokens is '5'"]),
        ("[limits]\ngamma = 65", ["gamma is 65", "1 to 64"]),
        ("[limits]\nrequest_body = '1 kB'", ["request_body is '1 kB'", "at least 100,000"]),
        ("[limits]\nrequest_body = 'much'", ["500 MB"]),
        ("[limits]\ntoken = 5", ["[limits] token is not", "Did you mean tokens?"]),
        ("[limit]\ntokens = 5", ["[limit] is not a known section", "Did you mean limits?"]),
        ("limits = 5", ["limits is not a section", "[limits]"]),
        ("[models]\nhub = 'no'", ["[models] hub is 'no'", "true or false"]),
        ("[models]\nfolders = '/srv'", ["folders is '/srv'", "absolute"]),
        ("[models]\nfolders = ['srv']", ["absolute"]),
        ("[models]\nlargest = '8 GiB'", ["largest is '8 GiB'"]),
        ("[models]\nlargest = nan", ["largest is nan"]),
        ("[servers]\naddresses = ['ftp://x']", ["'ftp://x' is not allowed", "neither http"]),
        ("[servers]\naddresses = ['http://x/v1']", ["not allowed", "path"]),
        ("[servers]\naddresses = ['169.254.169.254']", ["metadata"]),
        ("[servers]\naddresses = ['a:b@x']", ["not allowed"]),
        ("[servers]\naddresses = ['x:99999']", ["not allowed"]),
        ("[servers]\naddresses = [5]", ["list of addresses"]),
        ("[library]\nquota = '1 MB and more'", ["quota is"]),
        ("[people]\n'ada@uni.example' = 'king'", ["'ada@uni.example' is 'king'", '"student"']),
        ("[people]\n'ada@uni.example' = 3", ["is 3"]),
        ("[people]\nada = 'owner'", ["'ada' is not an e-mail address"]),
        ("[people]\n'*' = 'owner'", ["'*' is not an e-mail address"]),
        ("[people]\n'a@b' = 'owner'\n'A@b' = 'viewer'", ["'A@b' is listed twice"]),
        ("[people]\nothers = 'owner'", ["others is 'owner'", '"none", "viewer" or "student"']),
        ("[people]\nada@uni.example = 'owner'", ["not valid TOML", "line 2", "quotes"]),
        ("[limits", ["not valid TOML"]),
    ],
)
def test_every_error_names_the_file_the_key_and_the_allowed_values(
    text: str, words: list[str]
) -> None:
    message = refused(text)
    assert "specviz.toml" in message
    for each in words:
        assert each in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary, large = tmp_path / "binary", tmp_path / "large"
    binary.write_bytes(b"\xff\xfe\x00")
    large.write_text("#" * (10**6 + 1))
    for path, words in ((binary, "UTF-8"), (large, "1 MB"), (tmp_path, "cannot be read"),
                        (tmp_path / "none", "No such file")):  # fmt: skip
        with pytest.raises(ConfigError, match=words) as caught:
            read_settings(path)
        assert str(path) in str(caught.value)


# Reading again


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "specviz.toml"
    path.write_text("[limits]\ntokens = 10")
    file = SettingsFile(path)
    assert (file.current().limits.tokens, file.notice) == (10, "")
    path.write_text("[limits]\ntokens = 20")
    assert file.current().limits.tokens == 20


def test_a_broken_edit_keeps_the_last_settings(tmp_path: Path) -> None:
    path = tmp_path / "specviz.toml"
    path.write_text("[limits]\ntokens = 10")
    file = SettingsFile(path)
    file.current()
    path.write_text("[limits]\ntokens = 'many'")
    assert file.current().limits.tokens == 10
    assert "[limits] tokens is 'many'" in file.notice
    assert "earlier settings stay in force" in file.notice
    path.unlink()
    assert file.current().limits.tokens == 10  # a file that is gone lifts no limit
    assert "cannot be read" in file.notice
    path.write_text("[limits]\ntokens = 30")
    assert (file.current().limits.tokens, file.notice) == (30, "")


def test_an_unchanged_file_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "specviz.toml"
    path.write_text("")
    file = SettingsFile(path)
    first = file.current()
    monkeypatch.setattr(settings_module, "read_settings", lambda _path: pytest.fail("read again"))
    assert file.current() is first


def test_a_file_may_appear_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTINGS, raising=False)
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    assert the_settings() == DEFAULTS
    assert not the_settings_file().exists
    (tmp_path / "specviz.toml").write_text("[library]\nquota = '3 MB'")
    assert the_settings().quota == 3_000_000


def test_the_named_file_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS, str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="cannot be read"):
        the_settings()


def test_the_command_prints_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "specviz", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    def own(*arguments: str) -> tuple[int, str, str]:
        """Run a command in this process."""
        code = main(arguments)
        output = capsys.readouterr()
        return code, output.out, output.err

    code, printed, _ = own("settings")
    assert code == 0
    assert parsed(printed) == DEFAULTS
    path = tmp_path / "mine.toml"
    path.write_text("[limits]\ntokns = 3")
    started = run("--settings", str(path))  # the dashboard, which does not start
    refused = (started.returncode, started.stderr)
    checked, _, error = own("settings", str(path))
    for code, words in (refused, (checked, error)):
        assert code == 2
        assert "tokns is not a known key. Did you mean tokens?" in words
        assert words.count("\n") == 1
    path.write_text(printed)
    assert "is valid" in own("settings", str(path))[1]

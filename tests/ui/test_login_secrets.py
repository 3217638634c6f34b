"""The login's settings in Streamlit's secrets: what is accepted, and that mistakes do not open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit import config
from streamlit.runtime.secrets import secrets_singleton

from specviz.errors import ConfigError
from specviz.ui.access import providers, reachable_by_others, require_usable_access, the_access
from specviz.ui.access.providers import configured_providers, own_origin, title_of

GOOD = """[auth]
redirect_uri = "https://specviz.uni.example/oauth2callback"
cookie_secret = "at least thirty-two random characters"
[auth.google]
client_id = "a"
client_secret = "b"
server_metadata_url = "https://login.example/.well-known/openid-configuration"
"""
Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write the secrets of a dashboard on 127.0.0.1."""
    names = ("secrets.files", "server.address")
    kept = [(each, config.get_option(each), config.get_where_defined(each)) for each in names]
    file = tmp_path / "secrets.toml"
    config.set_option("secrets.files", [str(file)])
    config.set_option("server.address", "127.0.0.1")
    monkeypatch.setattr(providers.auth_util, "is_authlib_installed", lambda: True)
    monkeypatch.delenv("SPECVIZ_TOKEN", raising=False)
    the_access.cache_clear()

    def write(text: str) -> None:
        file.write_text(text)
        secrets_singleton._reset()

    yield write
    for option in kept:
        config.set_option(*option)
    secrets_singleton._reset()
    the_access.cache_clear()


def test_a_login_guards_even_a_loopback_address(write: Write) -> None:
    write(GOOD)
    assert configured_providers() == ("google",)
    assert reachable_by_others()
    assert own_origin() == "https://specviz.uni.example"


def test_several_providers(write: Write) -> None:
    other = GOOD.partition("[auth.google]")[2]
    write(f"{GOOD}[auth.keycloak]{other}")
    assert configured_providers() == ("google", "keycloak")
    assert [title_of(each) for each in configured_providers()] == ["Google", "Keycloak"]


def test_one_provider_without_a_name(write: Write) -> None:
    write(GOOD.replace("[auth.google]\n", ""))
    assert configured_providers() == ("default",)
    assert title_of("default") == ""


@pytest.mark.parametrize("text", ["", '[database]\npassword = "x"\n'])
def test_other_secrets_are_no_login(write: Write, text: str) -> None:
    write(text)
    assert configured_providers() == ()
    assert not reachable_by_others()


def test_no_secrets_are_no_login(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    del write
    with pytest.raises(ConfigError, match=r"secrets\.toml cannot be read"):  # the chosen file
        configured_providers()
    monkeypatch.setattr(config, "is_manually_set", lambda _: False)
    assert configured_providers() == ()
    assert not reachable_by_others()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{GOOD}\n[oops", "not valid TOML"),
        (GOOD.replace('client_id = "a"\n', ""), "names no login provider"),
        (GOOD.replace('client_secret = "b"\n', ""), "client_secret"),
        (GOOD.replace("server_metadata_url", "url"), "server_metadata_url"),
        (GOOD.replace("redirect_uri", "redirect"), "redirect_uri"),
        (GOOD.replace("/oauth2callback", "/callback"), "/oauth2callback"),
        (GOOD.replace("cookie_secret", "secret"), "cookie_secret"),
        (GOOD.replace("at least thirty-two random characters", "short"), "less than 32"),
        (GOOD.replace("[auth.google]", "[auth.my_google]"), "underscore"),
    ],
)
def test_a_mistake_stops_the_start(write: Write, text: str, words: str) -> None:
    """Otherwise the dashboard would start without its login, open to everybody."""
    write(text)
    with pytest.raises(ConfigError, match=words):
        configured_providers()
    with pytest.raises(SystemExit) as ended:
        require_usable_access()
    assert "\n" not in str(ended.value)


def test_a_login_needs_authlib(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(GOOD)
    monkeypatch.setattr(providers.auth_util, "is_authlib_installed", lambda: False)
    with pytest.raises(ConfigError, match=r"Authlib.*`make login`"):
        configured_providers()

"""OpenID Connect through Streamlit: its secrets, its routes, and the identity cookie that it signs.

Streamlit exchanges the provider's code and puts the identity into a signed cookie. A browser keeps
the cookie for 30 days, but the server would accept a copy of it forever. So the gate takes the
identity out of Streamlit's answer, and the cookie never reaches a browser. No request can log in
with such a cookie.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.types import Message, Scope
from streamlit import auth_util, config
from streamlit.errors import StreamlitAuthError
from streamlit.runtime.secrets import secrets_singleton
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import (
    TOKENS_COOKIE_NAME,
    USER_COOKIE_NAME,
)

from specviz.access.people import person_key
from specviz.errors import ConfigError
from specviz.installation import INSTALL_LOGIN
from specviz.values import Value

LOGIN, LOGOUT, CALLBACK = "auth/login", "auth/logout", "oauth2callback"  # Streamlit's routes
_SHORTEST_SECRET = 32  # characters
_FRESH = 300.0  # seconds since Streamlit signed the identity, and since the provider issued it
_DEFAULT = "default"  # Streamlit's name of the provider in [auth] itself


class Identity(Value):
    """Who logged in, according to the provider. ``cookies``: the cookies that Streamlit signed."""

    person: str | None  # None if there is no e-mail address, or it is not verified
    issued: float
    cookies: tuple[tuple[str, str], ...]


# The secrets


def configured_providers() -> tuple[str, ...]:
    """Return the names of the login providers in the section [auth] of Streamlit's secrets.

    Raises:
        ConfigError: The section is not complete or cannot be read, or Authlib is missing.
    """
    _require_readable_secrets()
    section = auth_util.get_secrets_auth_section().to_dict()
    if not section:
        return ()
    names = [_DEFAULT] if "client_id" in section else []
    names += [name for name, each in section.items() if _is_provider(each)]
    if not names:
        raise ConfigError(
            "The section [auth] of the secrets names no login provider.",
            remedy="Add client_id, client_secret and server_metadata_url.",
        )
    if not auth_util.is_authlib_installed():
        raise ConfigError(
            "The secrets set up a login, but Authlib is not installed.",
            remedy=f"Run `{INSTALL_LOGIN}`.",
        )
    for name in names:
        _check(name, section)
    return tuple(names)


def _require_readable_secrets() -> None:
    """Raise ConfigError for secrets that Streamlit ignores because it cannot read them.

    Without this check, a mistake in the file would open the dashboard to everybody.
    """
    if secrets_singleton.load_if_toml_exists():
        return
    chosen = config.is_manually_set("secrets.files")
    for each in config.get_option("secrets.files"):
        path = Path(each)
        try:
            names_login = path.is_file() and "auth" in path.read_text(errors="replace")
        except OSError:
            names_login = True
        if chosen or names_login:
            raise ConfigError(
                f"The secrets file {path.name} cannot be read, or is not valid TOML.",
                remedy="Correct the file; it may contain the settings of the login.",
            )


def _is_provider(value: object) -> bool:
    return isinstance(value, Mapping) and "client_id" in value


def _check(name: str, section: Mapping[str, Any]) -> None:
    try:
        auth_util.validate_auth_credentials(name)
    except StreamlitAuthError as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"The login is not set up: {text}", remedy="Correct it.") from None
    if not str(section["redirect_uri"]).endswith(f"/{CALLBACK}"):
        raise ConfigError(
            "redirect_uri in the section [auth] of the secrets does not end in /oauth2callback.",
            remedy=f"Give the dashboard's own address, followed by /{CALLBACK}.",
        )
    if len(str(section["cookie_secret"])) < _SHORTEST_SECRET:
        raise ConfigError(
            f"cookie_secret in the section [auth] has less than {_SHORTEST_SECRET} characters.",
            remedy='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )


def title_of(provider: str) -> str:
    """Return a provider's name for a button; "" if the secrets do not name the provider."""
    return "" if provider == _DEFAULT else provider[:1].upper() + provider[1:]


def own_origin() -> str | None:
    """Return the address under which the login's settings expect the dashboard."""
    return auth_util.get_origin_from_redirect_uri()


# Streamlit's routes


def is_route(scope: Scope, route: str) -> bool:
    return scope["path"] == _path(route)


def is_auth_route(scope: Scope) -> bool:
    return any(is_route(scope, each) for each in (LOGIN, LOGOUT, CALLBACK))


def _path(route: str) -> str:
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/{route}" if base else f"/{route}"


def login_request(scope: Scope, provider: str) -> Scope:
    """Return the request to Streamlit's login route for a provider."""
    token = auth_util.encode_provider_token(provider)
    return _request(scope, LOGIN, urlencode({"provider": token}))


def logout_request(scope: Scope, cookies: tuple[tuple[str, str], ...]) -> Scope:
    """Return the request to Streamlit's logout route. The route may redirect to the provider."""
    pairs = "; ".join(f"{name}={value}" for name, value in cookies)
    headers = [each for each in scope["headers"] if each[0] != b"cookie"]
    request = _request(scope, LOGOUT, "")
    return {**request, "headers": [*headers, (b"cookie", pairs.encode("latin-1"))]}


def _request(scope: Scope, route: str, query: str) -> Scope:
    path = _path(route)
    return {**scope, "path": path, "raw_path": path.encode(), "query_string": query.encode()}


# Streamlit's answers


def location_of(start: Message) -> str:
    return Headers(raw=start["headers"]).get("location", "")


def state_of(location: str) -> str | None:
    """Return the parameter ``state`` of the URL at which a login with the provider begins."""
    return parse_qs(urlsplit(location).query).get("state", [None])[0]


def identity_in(start: Message, now: float) -> Identity | None:
    """Return the identity that Streamlit's answer puts into cookies; None if there is none.

    The signature is checked with Streamlit's secret, and both the signature and the provider's
    statement must be a few minutes old at most.
    """
    cookies = dict(_identity_cookies(start))
    secret = get_cookie_secret()

    def signed(name: str) -> bytes | None:
        value = cookies.get(name)
        return decode_signed_value(secret, name, value, _FRESH / 86400) if value else None

    try:
        found = auth_util.get_cookie_with_chunks(signed, USER_COOKIE_NAME)
        claims = json.loads(found) if found else None
    except ValueError:
        return None
    if not isinstance(claims, dict) or claims.get("is_logged_in") is not True:
        return None
    issued = claims.get("iat", now)
    if isinstance(issued, bool) or not isinstance(issued, int | float):
        return None
    if not now - _FRESH <= issued <= now + _FRESH:
        return None
    return Identity(
        person=_person_in(claims), issued=min(float(issued), now), cookies=tuple(cookies.items())
    )


def _person_in(claims: Mapping[str, Any]) -> str | None:
    verified = claims.get("email_verified", True)
    if verified is not True and str(verified).lower() != "true":
        return None
    return person_key(claims.get("email"))


def is_identity_cookie(name: str) -> bool:
    return name.startswith(USER_COOKIE_NAME)  # also the tokens, and the parts of long ones


def cookie_headers(start: Message) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each cookie that an answer sets."""
    for text in Headers(raw=start["headers"]).getlist("set-cookie"):
        yield text.partition("=")[0].strip(), text


def _identity_cookies(start: Message) -> Iterator[tuple[str, str]]:
    assert TOKENS_COOKIE_NAME.startswith(USER_COOKIE_NAME)
    for name, text in cookie_headers(start):
        if not is_identity_cookie(name):
            continue
        try:
            morsels = SimpleCookie(text)
        except CookieError:
            continue
        if name in morsels and morsels[name].value:
            yield name, morsels[name].value

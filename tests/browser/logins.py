"""A dashboard with a login, beside an OpenID provider on this machine."""

from __future__ import annotations

import http.client
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.browser.conftest import Server
from tests.browser.page_sockets import PageSocket, fetch, fetch_pairs

PEOPLE = {"ada": "ada@uni.example", "sam": "sam@uni.example", "vic": "vic@uni.example"}
UNKNOWN, UNVERIFIED = "eve", "una"
SETTINGS = """[people]
"ada@uni.example" = "owner"
"sam@uni.example" = "student"
"vic@uni.example" = "viewer"
"una@uni.example" = "owner"
"""
TOKEN = "the-token-of-this-server"


def claims() -> dict[str, dict[str, object]]:
    """Return the provider's accounts: what it says about each."""
    accounts = {**PEOPLE, UNKNOWN: "eve@uni.example", UNVERIFIED: "una@uni.example"}
    return {
        sub: {"email": email, "email_verified": sub != UNVERIFIED}
        for sub, email in accounts.items()
    }


def write_secrets(folder: Path, issuer: str, address: str = "http://127.0.0.1:{port}") -> Path:
    """Write Streamlit's secrets for a provider named Mock and a dashboard at an address.

    Streamlit replaces ``{port}`` by its own port.
    """
    path = folder / "secrets.toml"
    path.write_text(f"""[auth]
redirect_uri = "{address}/oauth2callback"
cookie_secret = "a cookie secret of forty random characters"
[auth.mock]
client_id = "specviz"
client_secret = "secret"
server_metadata_url = "{issuer}/.well-known/openid-configuration"
""")
    return path


@dataclass
class Dashboard:
    """The dashboard, its settings file, and its log."""

    server: Server
    settings: Path
    log: Path

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def cookie_name(self) -> str:
        return f"specviz_access_{urlsplit(self.server.url).port}"


@dataclass
class Browser:
    """A browser that logs in: its cookies, and what it saw."""

    dashboard: Dashboard
    cookies: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)  # of each cookie that was set
    seen: list[str] = field(default_factory=list)

    @property
    def header(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    @property
    def access(self) -> str:
        """The session's cookie, as a header."""
        name = self.dashboard.cookie_name
        return f"{name}={self.cookies.get(name, '')}"

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Return the status, the location and the text of a response; keep its cookies."""
        status, pairs, text = fetch_pairs(
            self.dashboard.url, path, method=method, headers={"Cookie": self.header}
        )
        for name, value in pairs:
            if name == "set-cookie":
                self._take(value)
        self.seen.append(f"{pairs} {text}")
        return status, dict(pairs).get("location", ""), text

    def _take(self, text: str) -> None:
        cookie, _, attributes = text.partition(";")
        name, _, value = cookie.partition("=")
        self.attributes[name] = attributes.lower()
        if value.strip('"') and "max-age=0" not in attributes.lower():
            self.cookies[name] = value
        else:
            self.cookies.pop(name, None)

    def begin(self, page: str = "/") -> str:
        """Begin a login, and return the provider's address."""
        mark = "&" if "?" in page else "?"
        status, location, text = self.get(f"{page}{mark}login=mock")
        assert status == 302, text
        return location

    def log_in(self, sub: str, page: str = "/") -> tuple[int, str, str]:
        return self.get(answer_of_provider(self.begin(page), sub))

    def socket(self) -> PageSocket:
        return PageSocket(self.dashboard.url, self.access)


def answer_of_provider(address: str, sub: str) -> str:
    """Choose an account at the provider, and return the path to which it sends the browser."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    form = urlencode({"sub": sub})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", f"{place.path}?{place.query}", form, headers)
    answer = connection.getresponse()
    answer.read()
    location = urlsplit(answer.getheader("location") or "")
    connection.close()
    assert parse_qs(location.query).get("code"), answer.status
    return f"{location.path}?{location.query}"


__all__ = ["Browser", "Dashboard", "fetch"]

"""Streamlit's login routes as the gate sees them, with a provider that a test controls."""

from __future__ import annotations

import json
import re
import time
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from specviz.ui.access import providers
from tests.ui.gated_dashboard import Answer, Dashboard

SECRET = "the cookie secret of this dashboard"
IDENTITY, TOKENS = "_streamlit_user", "_streamlit_user_tokens"
VERIFIED = {"email": "sam@uni.example", "email_verified": True}


def signed(claims: dict[str, Any], secret: str = SECRET, name: str = IDENTITY) -> str:
    return create_signed_value(secret, name, json.dumps(claims)).decode()


def claims_of(**changes: Any) -> dict[str, Any]:
    """Return the claims that Streamlit signs after a login; None removes a claim."""
    made = {**VERIFIED, "iat": time.time(), "is_logged_in": True, "provider": "google", **changes}
    return {name: value for name, value in made.items() if value is not None}


class FakeStreamlit:
    """Answers the login routes. ``identity`` is the identity cookie of the next callback."""

    def __init__(self) -> None:
        self.identity: str | None = signed(claims_of())
        self.logins = 0
        self.cookies_at_logout = ""
        self.end_session = "https://login.example/end"
        self.answers = 302  # status of the login route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        match scope["path"].rpartition("/")[2]:
            case "login":
                self.logins += 1
                to = urlencode({"state": f"state{self.logins}", "scope": "openid email"})
                answer = RedirectResponse(f"https://login.example/authorize?{to}", self.answers)
                answer.set_cookie("_streamlit_session", "flow", httponly=True)
                return answer
            case "oauth2callback":
                answer = RedirectResponse("/", 302)
                if self.identity is not None:
                    answer.set_cookie(IDENTITY, self.identity, max_age=30 * 86400)
                    answer.set_cookie(TOKENS, signed({"id_token": "x"}, name=TOKENS))
                return answer
            case "logout":
                headers = dict(scope["headers"])
                self.cookies_at_logout = headers.get(b"cookie", b"").decode()
                answer = RedirectResponse(self.end_session, 302)
                answer.delete_cookie(IDENTITY)
                return answer
            case _:
                return Response("the page")


class LoginDashboard(Dashboard):
    """A gate with a login provider, in front of ``FakeStreamlit``, on the real clock."""

    def __init__(self) -> None:
        self.streamlit = FakeStreamlit()
        super().__init__(providers=("google",), app=self.streamlit, clock=time.time)

    def begin(self, path: str = "/", query: str = "login=google", **options: Any) -> str:
        """Begin a login, and return its state."""
        answer = self.answer(path, query, **options)
        assert answer.status == 302, answer.text
        return parse_qs(answer.headers["location"].partition("?")[2])["state"][0]

    def finish(self, state: str, **options: Any) -> Answer:
        return self.answer("/oauth2callback", f"code=c&state={state}", **options)

    def log_in(self, **changes: Any) -> Answer:
        """Log in with these claims, and return the answer to the callback."""
        self.streamlit.identity = signed(claims_of(**changes))
        return self.finish(self.begin())

    @property
    def people(self) -> list[str]:
        return [each.person for each in self.access.sessions.all()]


def all_text(answer: Answer) -> str:
    """Return everything that a client receives."""
    return re.sub(r"\s+", " ", f"{answer.headers} {answer.text}")


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> LoginDashboard:
    monkeypatch.setattr(providers, "get_cookie_secret", lambda: SECRET)
    monkeypatch.setattr(providers.auth_util, "encode_provider_token", lambda name: f"token-{name}")
    return LoginDashboard()

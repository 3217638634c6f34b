"""The dashboard behind Caddy with TLS: ``python -m tests.browser.check_proxy``.

Starts the dashboard, a login provider and Caddy with the shipped Caddyfile, all on loopback
addresses, and opens the dashboard through the proxy. Prints findings; exits with 1 if one is wrong.
Without Caddy 2.7 or newer, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import oidc_provider_mock
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.browser.logins import TOKEN, UNKNOWN, Browser, claims
from tests.browser.page_sockets import fetch, fetch_pairs
from tests.browser.proxied_pages import check_pages
from tests.browser.proxies import DOMAIN, ProxiedDashboard, find_caddy, start, version_of
from tests.servers.check_real import Findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caddy", default="caddy", help="the program, by name or path")
    parser.add_argument("--live-seconds", type=float, default=125, help="length of a live run")
    options = parser.parse_args()
    caddy, reason = find_caddy(options.caddy)
    if reason:
        print(reason)
        return 0
    print(f"Caddy {'.'.join(map(str, version_of(caddy)))}")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the provider's requests
    accounts = [oidc_provider_mock.User(sub=sub, claims=each) for sub, each in claims().items()]
    findings = Findings()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="specviz-proxy-")))
        provider = stack.enter_context(
            oidc_provider_mock.run_server_in_thread(user_claims=accounts)
        )
        dashboard = start(folder, caddy, f"http://localhost:{provider.server_port}", stack)
        check_health(dashboard, findings)  # waits until the worker has started
        check_redirect(dashboard, findings)
        check_token(dashboard, findings)
        check_sockets(dashboard, findings)
        check_logins(dashboard, findings)
        check_forged_headers(dashboard, findings)
        check_pages(dashboard, folder, options.live_seconds, partial(expect, findings))
    return int(findings.wrong > 0)


def expect(findings: Findings, what: str, found: object, wanted: object = True) -> None:
    right = found == wanted
    findings.check(what if right else f"{what} ({found!r}, not {wanted!r})", int(right), 1)


def check_redirect(dashboard: ProxiedDashboard, findings: Findings) -> None:
    status, headers, _ = fetch(dashboard.plain, "/runs?sort=tau")
    place = urlsplit(headers.get("location", ""))
    right = (place.scheme, place.hostname, place.path, place.query)
    expect(findings, "plain HTTP is redirected", status, 308)
    expect(
        findings,
        "and to the same page under HTTPS",
        right == ("https", DOMAIN, "/runs", "sort=tau"),
    )


def check_token(dashboard: ProxiedDashboard, findings: Findings) -> None:
    browser = Browser(dashboard)
    status, location, _ = browser.get(f"/speed?gamma=3&token={TOKEN}")
    right = (status, location) == (303, "./speed?gamma=3") and browser.get(location[1:])[0] == 200
    expect(findings, "the link with the token is exchanged", right)
    text = browser.attributes.get(dashboard.cookie_name, "")
    flags = {each.strip() for each in text.split(";")}
    wanted = {"secure", "httponly", "samesite=lax", "path=/"}
    expect(findings, "attributes of its cookie", len(wanted & flags), len(wanted))
    _, headers, _ = fetch(dashboard.url, "/", headers={"Cookie": browser.header})
    sent = headers.get("strict-transport-security") == "max-age=31536000"
    expect(findings, "Strict-Transport-Security is sent", sent and "server" not in headers)


def check_sockets(dashboard: ProxiedDashboard, findings: Findings) -> None:
    browser = Browser(dashboard)
    browser.get(f"/?token={TOKEN}")
    foreign = ("https://elsewhere.example", f"https://elsewhere.{DOMAIN}", dashboard.server.url)
    refused = [_handshake(dashboard, browser.access, each) for each in (*foreign, None)]
    expect(findings, "WebSockets of other pages are refused", refused.count(403), len(refused))
    expect(findings, "also without a session", _handshake(dashboard, "", dashboard.url), 403)
    expect(
        findings,
        "its own pages may connect",
        _handshake(dashboard, browser.access, dashboard.url),
        101,
    )


def _handshake(dashboard: ProxiedDashboard, cookie: str, origin: str | None) -> int:
    try:
        with connect(
            f"ws{dashboard.url.removeprefix('http')}/_stcore/stream",
            origin=Origin(origin) if origin else None, proxy=None, open_timeout=60,
            additional_headers={"Cookie": cookie} if cookie else None,
        ):  # fmt: skip
            return 101
    except InvalidStatus as error:
        return error.response.status_code


def check_logins(dashboard: ProxiedDashboard, findings: Findings) -> None:
    (address,) = parse_qs(urlsplit(Browser(dashboard).begin()).query)["redirect_uri"]
    expect(
        findings,
        "the provider is asked to return to HTTPS",
        address == f"{dashboard.url}/oauth2callback",
    )
    shown = []
    for sub, role in (("ada", "owner"), ("sam", "student"), ("vic", "viewer")):
        browser = Browser(dashboard)
        status, location, _ = browser.log_in(sub, "/runs")
        if status != 303:
            expect(findings, f"the login of {sub}", status, 303)
            continue
        with browser.socket() as page:
            words = f"{sub}@uni.example, {role}" in " ".join(page.open())
            may_run = "run" in page.buttons
            page.buttons.clear()
            page.open("compare")
            may_compare = "compare_start_prompt" in page.buttons
        secure = "secure" in browser.attributes[dashboard.cookie_name]
        shown.append((location, words and secure) == ("./runs", True))
        shown += [may_run == (role != "viewer"), may_compare == (role == "owner")]
    expect(findings, "logins make sessions, and roles hold", sum(shown), 9)
    expect(findings, "an unlisted account is refused", Browser(dashboard).log_in(UNKNOWN)[0], 403)


def check_forged_headers(dashboard: ProxiedDashboard, findings: Findings) -> None:
    def attempt(client: str, token: str, **headers: str) -> tuple[int, str]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        status, pairs, _ = fetch_pairs(
            dashboard.url, f"/?token={token}", headers=sent, source=client
        )
        return status, dict(pairs).get("set-cookie", "").lower()

    wrong = [
        attempt("127.0.0.5", "a-wrong-token-of-somebody", X_Forwarded_For=f"192.0.2.{each}")[0]
        for each in range(6)
    ]
    expect(findings, "forged addresses: wrong tokens are delayed", wrong.count(429) >= 4)
    forged = attempt("127.0.0.5", TOKEN, X_Forwarded_For="127.0.0.1")[0]
    expect(findings, "and the right token, too", forged, 429)
    expect(findings, "another client is not delayed", attempt("127.0.0.6", TOKEN)[0], 303)
    _, cookie = attempt("127.0.0.7", TOKEN, X_Forwarded_Proto="http", Forwarded="proto=http")
    expect(findings, "a forged scheme leaves the cookie Secure", "; secure" in cookie)
    local = {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1", "X-Specviz-Person": "ada"}
    expect(findings, "a forged local address", fetch(dashboard.url, "/", headers=local)[0], 401)


def check_health(dashboard: ProxiedDashboard, findings: Findings) -> None:
    deadline = time.monotonic() + 120
    while (direct := fetch(dashboard.server.url, "/health")[0]) != 200:
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    expect(findings, "/health answers the container", direct, 200)
    expect(findings, "but nobody outside", fetch(dashboard.url, "/health")[0], 404)
    command = [sys.executable, "-m", "specviz.healthcheck", dashboard.server.url]
    expect(
        findings, "the container's health check", subprocess.run(command, check=False).returncode, 0
    )


if __name__ == "__main__":
    sys.exit(main())

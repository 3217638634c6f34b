"""The dashboard behind Caddy on this machine, with TLS and the shipped Caddyfile.

Caddy's peer address is not 127.0.0.1, as in a container: the dashboard has to trust it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from specviz.cli.free_port import free_port
from tests.browser.conftest import ROOT, Server, _await_health
from tests.browser.logins import SETTINGS, TOKEN, Dashboard, write_secrets

DOMAIN = "specviz.localhost"  # Chromium resolves names under localhost itself
OLDEST = (2, 7)  # knows stream_timeout
_CONTAINER = ROOT / "assets" / "container"
_PROXY = "127.0.0.3"  # the address from which Caddy connects
_SECONDS = 20.0


@dataclass
class ProxiedDashboard(Dashboard):
    """A dashboard whose ``url`` is the proxy's."""

    proxy: str  # https
    plain: str  # http, which is redirected

    @property
    def url(self) -> str:
        return self.proxy


def version_of(caddy: str) -> tuple[int, ...]:
    shown = subprocess.run([caddy, "version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", shown)
    return tuple(map(int, found.groups())) if found else ()


def find_caddy(chosen: str) -> tuple[str, str]:
    """Return Caddy's path, or "" and the reason why it cannot be used."""
    path = shutil.which(chosen)
    if path is None:
        return "", f"NO CADDY: {chosen} was not found. The proxy was not checked."
    version = version_of(path)
    if version < OLDEST:
        shown = ".".join(map(str, version))
        return "", f"CADDY {shown} IS TOO OLD for the shipped Caddyfile. The proxy was not checked."
    return path, ""


def caddyfile(folder: Path, upstream: int, http: int, https: int) -> str:
    """Return the shipped Caddyfile with this upstream, a certificate of its own, and these ports.

    The name of the host is in ``SPECVIZ_DOMAIN``.
    """
    options = (
        "admin off", f"http_port {http}", f"https_port {https}", "default_bind 127.0.0.1",
        "skip_install_trust", f"storage file_system {folder / 'storage'}",
    )  # fmt: skip
    shipped = (_CONTAINER / "Caddyfile").read_text(encoding="utf-8")
    site = "{$SPECVIZ_DOMAIN} {"
    proxy = "reverse_proxy specviz:8501 {"
    assert (shipped.count(site), shipped.count(proxy)) == (1, 1)
    source = f"transport http {{\nlocal_address {_PROXY}\n}}"
    text = shipped.replace(site, f"{site}\ntls internal")
    text = text.replace(proxy, f"reverse_proxy 127.0.0.1:{upstream} {{\n{source}")
    return "\n".join(["{", *options, "}", text])


def _compose_environment() -> dict[str, str]:
    """Return the environment that compose.yaml gives to specviz."""
    compose = yaml.safe_load((_CONTAINER / "compose.yaml").read_text(encoding="utf-8"))
    given: dict[str, Any] = compose["services"]["specviz"]["environment"]
    values = {"SPECVIZ_TOKEN": TOKEN, "SPECVIZ_DOMAIN": DOMAIN}
    return {
        name: re.sub(r"\$\{(\w+):\?[^}]*\}", lambda each: values[each[1]], str(value))
        for name, value in given.items()
    }


def start(folder: Path, caddy: str, issuer: str, stack: ExitStack) -> ProxiedDashboard:
    """Start the dashboard, and Caddy in front of it; ``stack`` ends both."""
    settings, log = folder / "specviz.toml", folder / "errors.txt"
    settings.write_text(SETTINGS)
    upstream, http, https = (free_port("127.0.0.1", first) for first in (8631, 8731, 8831))
    url = f"https://{DOMAIN}:{https}"
    errors = stack.enter_context(log.open("wb"))
    dashboard = _child(
        stack,
        [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={upstream}",
         "--server.address=127.0.0.1", "--server.headless=true",
         "--secrets.files", str(write_secrets(folder, issuer, url))],
        errors.fileno(),
        {**_compose_environment(), "SPECVIZ_HOME": str(folder / "home"),
         "SPECVIZ_SETTINGS": str(settings), "SPECVIZ_FIRST_BODY": "none", "OMP_NUM_THREADS": "1",
         "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    local = f"http://127.0.0.1:{upstream}"
    assert _await_health(local, dashboard)
    config = folder / "Caddyfile"
    config.write_text(caddyfile(folder, upstream, http, https))
    messages = stack.enter_context((folder / "caddy.txt").open("wb"))
    command = [caddy, "run", "--config", str(config), "--adapter", "caddyfile"]
    process = _child(
        stack, command, messages.fileno(), {"SPECVIZ_DOMAIN": DOMAIN, "HOME": str(folder)}
    )
    stack.enter_context(_trusted(folder / "storage/pki/authorities/local/root.crt", https, process))
    return ProxiedDashboard(
        Server(local, dashboard.pid), settings, log, url, f"http://{DOMAIN}:{http}"
    )


def _child(
    stack: ExitStack, command: list[str], errors: int, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.send_signal, signal.SIGTERM)
    return process


@contextmanager
def _trusted(root: Path, port: int, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for Caddy; let this process resolve ``DOMAIN`` and trust Caddy's root certificate."""
    until = time.monotonic() + _SECONDS
    while not _has_certificate(root, port):
        assert process.poll() is None, "Caddy ended by itself"
        assert time.monotonic() < until, "Caddy did not start"
        time.sleep(0.1)
    resolve = socket.getaddrinfo

    def resolve_here(host: Any, *others: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if host == DOMAIN else host, *others, **options)

    with (
        patch.object(socket, "getaddrinfo", resolve_here),
        patch.dict(os.environ, {"SSL_CERT_FILE": str(root)}),
    ):
        yield


def _has_certificate(root: Path, port: int) -> bool:
    """Return whether Caddy has made its certificate: it listens before that."""
    try:
        context = ssl.create_default_context(cafile=str(root))
        with (
            socket.create_connection(("127.0.0.1", port), timeout=1) as plain,
            context.wrap_socket(plain, server_hostname=DOMAIN),
        ):
            return True
    except OSError:
        return False

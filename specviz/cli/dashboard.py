"""Start the dashboard: the command line without a command.

Streamlit's server runs in a child process with a session of its own, so that Ctrl-C reaches only
this process. This process then ends the server and everything that the server started. The options
are passed to the server in environment variables.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from urllib.error import HTTPError
from urllib.request import urlopen

from specviz import ROOT
from specviz.access.settings import SETTINGS, the_settings
from specviz.cli.free_port import HIGHEST, free_port, is_allowed, is_loopback
from specviz.errors import ConfigError
from specviz.folders import DEMO, child_environment, is_demo
from specviz.local_models.added_folders import add_folders

HOST, PORT = "127.0.0.1", 8501
# Seconds between a signal and the end of a server that does not end by itself.
_SECONDS_TO_END = 1.0  # after Ctrl-C
_SECONDS_TO_STORE = 8.0  # after SIGTERM, as from a container: runs in progress are stored
_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
_STOPS = ("SIGINT", "SIGTERM", "SIGHUP")
_OPTIONS = ("host", "port", "models", "home", "token", "settings", "browser", "demo")


def add_dashboard(parser: argparse.ArgumentParser) -> None:
    """Add the options of the dashboard; every ``dest`` begins with ``dashboard_``."""
    group = parser.add_argument_group("dashboard", "Without a command, the dashboard opens.")
    group.add_argument(
        "--host", dest="dashboard_host", metavar="ADDRESS",
        help=f"listen on this address (default: {HOST}); if others can reach it, the dashboard "
        "asks for a token",
    )  # fmt: skip
    group.add_argument(
        "--port", dest="dashboard_port", type=int, metavar="N",
        help=f"listen on this port or, if it is in use, the next free one (default: {PORT})",
    )  # fmt: skip
    group.add_argument(
        "--models", dest="dashboard_models", action="append", metavar="DIR",
        help="also search this folder for models, now and in later commands; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--home", dest="dashboard_home", type=Path, metavar="DIR",
        help="the folder for the run library and all other data (default: SPECVIZ_HOME)",
    )  # fmt: skip
    group.add_argument(
        "--token", dest="dashboard_token", metavar="TOKEN",
        help="ask for this token; in SPECVIZ_TOKEN, other users of this machine cannot read it",
    )  # fmt: skip
    group.add_argument(
        "--settings", dest="dashboard_settings", type=Path, metavar="FILE",
        help="roles, limits and allowed models in this TOML file; `settings` prints an example "
        "(default: SPECVIZ_SETTINGS, else specviz.toml in the data folder)",
    )  # fmt: skip
    group.add_argument(
        "--demo", dest="dashboard_demo", action="store_true", default=None,
        help="serve a read-only demo with recorded runs: no models, no token, nothing stored",
    )  # fmt: skip
    group.add_argument(
        "--no-browser", dest="dashboard_browser", action="store_false", default=None,
        help="do not open the browser",
    )  # fmt: skip


def given_option(options: argparse.Namespace) -> str | None:
    """Return the first dashboard option that was given, or None."""
    given = (name for name in _OPTIONS if getattr(options, f"dashboard_{name}") is not None)
    name = next(given, None)
    return name and ("--no-browser" if name == "browser" else f"--{name}")


def command(options: argparse.Namespace) -> int:
    """Run the server until it ends or this process is stopped; return the exit code."""
    host = options.dashboard_host or HOST
    wanted = PORT if options.dashboard_port is None else options.dashboard_port
    if not 0 < wanted <= HIGHEST:
        raise ConfigError(f"--port is {wanted}.", remedy=f"Give a port from 1 to {HIGHEST}.")
    _set_environment(options)
    port = free_port(host, wanted)
    if port != wanted:
        print(f"Port {wanted} is in use; the dashboard uses port {port}.", file=sys.stderr)
    is_open = (is_loopback(host) or is_demo()) and not os.environ.get("SPECVIZ_TOKEN")
    return _run_server(host, port, open_browser=is_open and options.dashboard_browser is None)


def _set_environment(options: argparse.Namespace) -> None:
    demo = options.dashboard_demo or is_demo()
    for name in ("models", "home"):
        if demo and getattr(options, f"dashboard_{name}") is not None:
            raise ConfigError(
                f"--{name} has no effect in the demo, which reads and stores no data.",
                remedy=f"Remove --{name}, or start without --demo and SPECVIZ_DEMO.",
            )
    if demo:
        os.environ[DEMO] = "1"
    if options.dashboard_home is not None:
        os.environ["SPECVIZ_HOME"] = str(options.dashboard_home.expanduser().absolute())
    if options.dashboard_token is not None:
        os.environ["SPECVIZ_TOKEN"] = options.dashboard_token
    if options.dashboard_settings is not None:
        os.environ[SETTINGS] = str(options.dashboard_settings.expanduser().absolute())
    the_settings()  # raises ConfigError if the file is not valid
    if options.dashboard_models:
        try:
            add_folders(options.dashboard_models)
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"The folders of --models cannot be stored: {str(reason).rstrip('.')}.",
                remedy="Give a writable folder with --home.",
            ) from None
        folders = [os.path.abspath(os.path.expanduser(each)) for each in options.dashboard_models]
        known = filter(None, [os.environ.get("SPECVIZ_MODELS")])
        os.environ["SPECVIZ_MODELS"] = os.pathsep.join([*known, *folders])


def _run_server(host: str, port: int, *, open_browser: bool) -> int:
    arguments = [f"--server.address={host}", f"--server.port={port}", "--server.headless=true"]
    if is_demo():  # public, so no name has to be refused
        arguments.append("--server.allowedHosts=*")
    elif not is_allowed(host):  # a name, or an IPv6 address
        arguments.append(f"--server.allowedHosts={host}")
    over = Event()
    process: subprocess.Popen[bytes] | None = None
    with _stop_signals() as stop:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "streamlit", "run", str(ROOT / "app.py"), *arguments],
                stdin=subprocess.DEVNULL,
                env=child_environment(),
                start_new_session=True,
            )
            stop.allow()
            if open_browser:
                url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
                Thread(target=_open_browser, args=(url, over), daemon=True).start()
            return process.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            over.set()
            if process is not None:
                _end(process, _SECONDS_TO_STORE if stop.is_term else _SECONDS_TO_END)


@dataclass(slots=True)
class _Stop:
    """Raises KeyboardInterrupt once, at the first signal.

    If the signal comes before ``allow`` is called, ``allow`` raises KeyboardInterrupt. An exception
    while the server's process is being started would lose the process.
    """

    allowed: bool = False
    received: bool = False
    is_term: bool = False  # the first signal is SIGTERM

    def allow(self) -> None:
        self.allowed = True
        if self.received:
            raise KeyboardInterrupt

    def on_signal(self, number: int, _frame: object) -> None:
        first, self.received = not self.received, True
        if first:
            self.is_term = number == getattr(signal, "SIGTERM", None)
        if first and self.allowed:
            raise KeyboardInterrupt


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """Let the yielded object handle the signals that would end this process."""
    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    stop = _Stop()
    before = {number: signal.signal(number, stop.on_signal) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End the server, and then the processes that it started.

    The server first stores the runs in progress. If it has not ended after ``seconds``, it is
    killed.
    """
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
        process.wait()


def _open_browser(url: str, over: Event) -> None:
    """Open the dashboard in a browser when the server answers."""
    for _ in range(round(_START_SECONDS / _POLL_SECONDS)):
        if _answers(url):
            if _has_screen():
                webbrowser.open(url)
            return
        if over.wait(_POLL_SECONDS):
            return


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/_stcore/health", timeout=1):
            return True
    except HTTPError:
        return True
    except OSError:
        return False


def _has_screen() -> bool:
    """Return whether a browser would open a window.

    A browser without windows would take over the terminal.
    """
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))

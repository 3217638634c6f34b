"""A class at work: many students of one dashboard, each with a login and an open page.

``python -m tests.browser.check_class`` starts the dashboard, a login provider and one program for
each student, all on this machine. The students open pages all the time, and together they press Run
ten times a minute. It prints how long pages took, how long runs waited, how much memory the
dashboard used, and whether the library has every run under the student who started it.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from threading import Event, Lock

import oidc_provider_mock
import psutil

from specviz.cli.free_port import free_port
from specviz.store import Library, Query, RunRow
from tests.browser.conftest import ROOT, Server, _await_health
from tests.browser.logins import TOKEN, Browser, Dashboard, write_secrets

PAGES = ("", "learn", "speed", "rejections", "bias", "misleading", "runs", "docs")
_EVERY = 15.0  # seconds between two pages of a student
_TOKENS = 64
_LAST_RUNS = 75.0  # seconds before the end: a run that waits when its tab closes is not made


@dataclass
class Class:
    """What the students saw."""

    pages: dict[str, list[float]] = field(default_factory=dict)  # seconds of each view, by page
    pressed: list[tuple[str, float]] = field(default_factory=list)  # student, time of the press
    refused: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    last_run: float = 0.0  # time.monotonic() of the last possible press
    lock: Lock = field(default_factory=Lock)


def address_of(number: int) -> str:
    return f"student{number:02}@uni.example"


def work(
    number: int, count: int, rate: float, over: Event, dashboard: Dashboard, seen: Class
) -> None:
    """Log in, open pages until the end, and press Run in this student's turns."""
    chance = random.Random(number)
    over.wait(number * _EVERY * 2 / count)  # students do not come in the same moment
    try:
        browser = Browser(dashboard)
        status, _, text = browser.log_in(f"student{number:02}")
        assert status == 303, text
        with browser.socket() as page:
            between = 60 * count / rate
            due = time.monotonic() + between * (number + 1) / count
            name = ""
            while not over.is_set():
                run = due <= time.monotonic() <= seen.last_run
                name = "" if run else chance.choice(PAGES)
                began = time.monotonic()
                page.open(name, f"length={_TOKENS}" if not name else "")
                with seen.lock:
                    seen.pages.setdefault(name or "watch", []).append(time.monotonic() - began)
                if run:
                    due += between
                    page.press("run")
                    with seen.lock:
                        if page.alerts:
                            seen.refused += page.alerts
                        else:
                            seen.pressed.append((address_of(number), time.time()))
                over.wait(chance.uniform(0.5, 1.5) * _EVERY)
    except Exception as error:
        with seen.lock:
            seen.failures.append(f"student {number}: {type(error).__name__} {error}"[:300])


def memory_of(pid: int) -> dict[str, float]:
    """Return the resident megabytes of the server and of its worker process."""
    server = psutil.Process(pid)
    children = [each.memory_info().rss for each in server.children(recursive=True)]
    return {"server": server.memory_info().rss / 1e6, "worker": sum(children) / 1e6}


def start(folder: Path, issuer: str, students: int, stack: ExitStack) -> Dashboard:
    settings, log, home = folder / "specviz.toml", folder / "errors.txt", folder / "home"
    people = "\n".join(f'"{address_of(number)}" = "student"' for number in range(students))
    settings.write_text(f"[people]\n{people}\n")
    port = free_port("127.0.0.1", 8611)
    errors = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}",
         "--server.address=127.0.0.1", "--server.headless=true",
         "--secrets.files", str(write_secrets(folder, issuer))],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
        env={**os.environ, "SPECVIZ_HOME": str(home), "SPECVIZ_SETTINGS": str(settings),
             "SPECVIZ_TOKEN": TOKEN, "SPECVIZ_FIRST_BODY": "none", "OMP_NUM_THREADS": "1",
             "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.send_signal, signal.SIGTERM)
    url = f"http://127.0.0.1:{port}"
    assert _await_health(url, process)
    return Dashboard(Server(url, process.pid), settings, log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=60)
    parser.add_argument("--rate", type=float, default=10, help="runs a minute, of all together")
    parser.add_argument("--minutes", type=float, default=4)
    options = parser.parse_args()
    accounts = [
        oidc_provider_mock.User(
            sub=f"student{number:02}", claims={"email": address_of(number), "email_verified": True}
        )
        for number in range(options.students)
    ]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the provider's requests
    seen, over = Class(), Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="specviz-class-")))
        provider = stack.enter_context(
            oidc_provider_mock.run_server_in_thread(user_claims=accounts)
        )
        dashboard = start(
            folder, f"http://localhost:{provider.server_port}", options.students, stack
        )
        print(f"the dashboard is at {dashboard.url}", file=sys.stderr)
        owner = Browser(dashboard)
        owner.get(f"/?token={TOKEN}")
        with owner.socket() as page:
            page.open()
            page.press("run")  # loads the pair, and compiles for it
        time.sleep(45)
        before = memory_of(dashboard.server.pid)
        seen.last_run = time.monotonic() + 60 * options.minutes - _LAST_RUNS
        with ThreadPoolExecutor(options.students) as pool:
            for number in range(options.students):
                pool.submit(work, number, options.students, options.rate, over, dashboard, seen)
            time.sleep(60 * options.minutes)
            open_sockets = _open_sockets(dashboard.server.pid)
            after = memory_of(dashboard.server.pid)
            over.set()
        time.sleep(20)  # the last runs end
        os.environ["SPECVIZ_HOME"] = str(folder / "home")
        _report(seen, before, after, open_sockets)


def _open_sockets(pid: int) -> int:
    found = psutil.Process(pid).net_connections(kind="tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED for each in found)


def _report(seen: Class, before: dict[str, float], after: dict[str, float], sockets: int) -> None:
    rows = Library().find(Query(limit=10_000))
    stored = Counter(row.person for row in rows if row.person)
    pressed = Counter(student for student, _ in seen.pressed)
    views = sorted(value for each in seen.pages.values() for value in each)
    print(f"{sockets} connections; {len(views)} pages opened, by page (median, 95 %, largest):")
    for name, seconds in sorted(seen.pages.items()):
        print(f"  {name:11} {_spread(seconds)}")
    print(f"  {'all':11} {_spread(views)}; {sum(each > 2 for each in views)} took over 2 s")
    print(f"runs pressed: {sum(pressed.values())}, refused: {len(seen.refused)}, "
          f"stored: {sum(stored.values())}")  # fmt: skip
    print(f"students whose runs are not all stored: {sorted((pressed - stored).items())}")
    waits = _waits(rows, seen)
    if waits:
        print(f"seconds from the press to the stored run: {_spread(waits)}")
    for name, size in before.items():
        print(f"memory of the {name}: {size:.0f} MB before, {after[name]:.0f} MB at the end")
    for each in (*seen.refused[:3], *seen.failures[:5]):
        print(f"failure: {each}")


def _waits(rows: Sequence[RunRow], seen: Class) -> list[float]:
    """Return how long each run took from the press until it was over, in order of the presses."""
    ends: dict[str, list[float]] = {}
    for row in rows:
        ends.setdefault(row.person, []).append(
            datetime.fromisoformat(row.summary.created).timestamp()
        )
    waits = []
    for student, began in sorted(seen.pressed, key=lambda each: each[1]):
        later = sorted(end for end in ends.get(student, []) if end >= began - 1)
        if later:
            waits.append(later[0] - began)
            ends[student].remove(later[0])
    return waits


def _spread(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return ", ".join(f"{each:.2f} s" for each in seconds)
    high = quantiles(seconds, n=20)[-1]
    return f"{median(seconds):.2f} s, {high:.2f} s, {max(seconds):.2f} s ({len(seconds)})"


if __name__ == "__main__":
    main()

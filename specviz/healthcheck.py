"""Check whether a dashboard's server and its worker process answer: a container's health check.

``python -m specviz.healthcheck http://127.0.0.1:8501`` exits with 0 if both answer, else with 1 and
a line on standard error. It imports only the standard library, because it runs every few seconds.
"""

from __future__ import annotations

import sys
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

SERVER, WORKER = "/_stcore/health", "/health"
_SECONDS = 4.0
_CLOSED = (401, 403)  # the server asks for a token or a login, so it answers


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        return _failed("give the address of the dashboard, such as http://127.0.0.1:8501")
    address = arguments[0].rstrip("/")
    for path, answers in ((SERVER, (200, *_CLOSED)), (WORKER, (200,))):
        status = _status(f"{address}{path}")
        if status not in answers:
            return _failed(f"{path}: {status or 'no answer'}")
    return 0


def _status(url: str) -> int | None:
    """Return the status of the answer; None without an answer."""
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=_SECONDS) as response:
            return int(response.status)
    except HTTPError as error:
        return error.code
    except (URLError, OSError, ValueError):
        return None


def _failed(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Recorded measurements of a real engine's acceptance, replayed with their counters.

The counters depend on the answers before them, so a tape keeps what the engine counted after each
number of answers. ``python -m tests.servers.check_parity --record`` records the tapes again.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.servers.record_answers import FOLDERS
from tests.servers.replaying import ANSWERS, Handler, Page, Served, answering

_METRICS = "/metrics"
_KEPT = ("spec_decode", "tokens_predicted_total", "generation_tokens_total")
Reply = tuple[int, str, str]  # status, content type, text


@dataclass
class ParityTape:
    pages: dict[str, Reply] = field(default_factory=dict[str, Reply])
    answers: dict[str, list[Reply]] = field(default_factory=dict[str, list[Reply]])  # by request
    counters: dict[str, str] = field(default_factory=dict[str, str])  # by number of answers


def place_of(name: str) -> Path:
    return ANSWERS / "parity" / f"llamacpp-{name.replace(' ', '-')}.json.gz"


def save_parity(tape: ParityTape, name: str) -> None:
    place_of(name).parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(tape), ensure_ascii=False)
    place_of(name).write_bytes(gzip.compress(text.encode(), mtime=0))


@contextmanager
def recorded_parity(address: str) -> Iterator[tuple[Served, ParityTape]]:
    """Forward every request to a real engine, and record it."""
    tape, lock = ParityTape(), threading.Lock()

    def answer(handler: Handler) -> None:
        with httpx2.Client(base_url=address, timeout=120, trust_env=False) as client:
            found = client.request(handler.command, handler.path, json=handler.body)
        text = _few(found.text) if handler.path == _METRICS else FOLDERS.sub("", found.text)
        reply = found.status_code, found.headers.get("content-type", ""), text
        with lock:
            if handler.path == _METRICS:
                tape.counters[str(sum(map(len, tape.answers.values())))] = text
            elif handler.body is None:
                tape.pages[handler.path] = reply
            else:
                tape.answers.setdefault(_key(handler), []).append(reply)
        _send(handler, reply)

    with answering(answer) as server:
        yield server, tape


@contextmanager
def replayed_parity(name: str) -> Iterator[Served]:
    stored: Any = json.loads(gzip.decompress(place_of(name).read_bytes()))
    tape, sent, lock = ParityTape(**stored), Counter[str](), threading.Lock()

    def answer(handler: Handler) -> None:
        with lock:
            if handler.path == _METRICS:
                reply = 200, "text/plain", tape.counters[str(sum(sent.values()))]
            elif handler.body is None:
                reply = tape.pages.get(handler.path, (404, "application/json", "{}"))
            else:
                reply = tape.answers[key := _key(handler)][sent[key]]
                sent[key] += 1
        _send(handler, reply)

    with answering(answer) as server:
        yield server


def _few(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if any(each in line for each in _KEPT))


def _key(handler: Handler) -> str:
    return f"{handler.path} {json.dumps(handler.body, sort_keys=True)}"


def _send(handler: Handler, reply: Reply) -> None:
    status, kind, text = reply
    handler.send(Page(body=text.encode(), status=status, kind=kind))

"""Record answers of real engines for the tests: ``python -m tests.servers.record_answers``.

Stores raw bytes with the version and the requests under ``answers``. Of metrics only the lines that
an adapter reads are kept, of paths only the file names.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from specviz.record.prompts import read_presets
from specviz.record.server_run import ServerInfo, ServerSettings
from specviz.servers import find_server
from specviz.servers.engines import engine_of
from tests.servers import real_engines
from tests.servers.replaying import ANSWERS

_PAGES = ("/v1/models", "/version", "/props", "/slots", "/metrics")
FOLDERS = re.compile(rf"{re.escape(str(real_engines.ROOT))}/|/tmp/specviz-[^/\"]*/")
_SHORT = ServerSettings(max_new_tokens=40)
_STORY, _ENDING, _ENDING_CHAT = (read_presets()[place].text for place in (0, 2, 1))
_KEPT_METRICS = ("spec_decode", "generation_tokens_total", "tokens_predicted_total")


def main(engines: list[str]) -> None:
    for engine in engines:
        if reason := real_engines.missing(engine.partition("-")[0]):
            print(reason)
            continue
        with real_engines.running(engine) as address:
            record(engine, address)


def record(engine: str, address: str) -> None:
    folder = ANSWERS / engine
    folder.mkdir(parents=True, exist_ok=True)
    info = find_server(address)
    chat = engine.endswith("-chat")
    short, long = replace(_SHORT, chat=chat), replace(_SHORT, chat=chat, max_new_tokens=80)
    ending = _ENDING_CHAT if chat else _ENDING
    answers = {"short": _answer(folder / "short.sse", info, _STORY, short)}
    if not engine.endswith("-plain"):
        answers["ended"] = _answer(folder / "ended.sse", info, ending, long)
        drawn = replace(short, temperature=0.8, seed=1)
        answers["drawn"] = _answer(folder / "drawn.sse", info, _STORY, drawn)
    if engine.startswith("vllm") and not engine.endswith("-plain"):
        answers["merged"] = _answer(folder / "merged.sse", info, ending, long, stream_interval=17)
    # Counters are read after the answers.
    pages = {path: _page(address, path) for path in _PAGES}
    record = {"version": info.version, "pages": pages, "answers": answers}
    text = FOLDERS.sub("", json.dumps(record, indent=1, ensure_ascii=False))
    (folder / "pages.json").write_text(text + "\n", encoding="utf-8")
    print(f"{engine}: {info}")


def _answer(
    path: Path, info: ServerInfo, prompt: str, settings: ServerSettings, **more: Any
) -> dict[str, Any]:
    request = engine_of(info).adapter.request(info, prompt, settings)
    body = {**request.body, **more}
    answer = httpx2.post(info.address + request.path, json=body, timeout=60, trust_env=False)
    answer.raise_for_status()
    path.write_bytes(answer.content)
    return {"path": request.path, "asked": body}


def _page(address: str, path: str) -> dict[str, Any]:
    found = httpx2.get(address + path, timeout=10, trust_env=False)
    body = found.text
    if path == "/metrics":
        lines = (line for line in body.splitlines() if any(name in line for name in _KEPT_METRICS))
        body = "\n".join(lines) + "\n"
    kind = found.headers.get("content-type", "")
    return {"status": found.status_code, "kind": kind, "body": body}


if __name__ == "__main__":
    main(sys.argv[1:] or list(real_engines.NAMES))

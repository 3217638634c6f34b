"""Real serving engines with the embedded pair, on this machine: `make engines` installs them.

llama.cpp may also be in this environment (`make rivals`).

``python -m tests.servers.real_engines vllm|llamacpp`` keeps one running and prints its address;
``-plain`` after the name means without a draft, ``-chat`` with a chat template. Each has one
thread. The process that starts an engine ends it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import httpx2

from specviz import ASSETS
from specviz.values import Value

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / ".engines"
PAIR = ASSETS / "pairs" / "tinystories"
GAMMA = 5
MODEL = "tiny"
READY_WITHIN = 240.0  # seconds
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} said: {{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}She said: {% endif %}"
)
_LLAMACPP = Path(__file__).with_name("llamacpp_process.py")


def python_of(engine: str) -> Path:
    own = ENGINES / engine / "bin" / "python"
    return Path(sys.executable) if not own.exists() and _is_here(engine) else own


def _is_here(engine: str) -> bool:
    return engine == "llamacpp" and find_spec("xllamacpp") is not None


def missing(engine: str) -> str | None:
    """Return why an engine cannot be started here, or None if it can."""
    if (ENGINES / f"{engine}.ready").exists() or _is_here(engine):
        return None
    return f"{engine} IS NOT CHECKED: make engines installs it"


@contextmanager
def running(name: str) -> Iterator[str]:
    """Start an engine of ``NAMES`` and yield its address."""
    engine, _, kind = name.partition("-")
    with _WAYS[engine](speculative=kind != "plain", chat=kind == "chat") as address:
        yield address


class Drafting(Value):
    """A draft in an engine's own format, and the engine's name of the method."""

    method: str
    place: Path


@contextmanager
def vllm(
    *,
    speculative: bool = True,
    gamma: int = GAMMA,
    level: str = "detailed",
    model: Path | Literal["target", "draft"] = "target",
    chat: bool = False,
    drafting: Drafting | None = None,
    more: Sequence[str] = (),
    at_once: int = 2,
    settings: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Start vLLM's server with one of the embedded models, or with the folder ``model``.

    It decodes at most ``at_once`` requests at the same time. ``settings``: more settings of
    speculation.
    """
    with TemporaryDirectory(prefix="specviz-") as temporary:
        folder = write_chat_pair(Path(temporary)) if chat else PAIR
        port = free_port()
        words = [
            *(str(python_of("vllm")), "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(folder / model), "--served-model-name", MODEL, "--dtype", "float32"),
            *("--max-model-len", "1024", "--enforce-eager", "--max-num-seqs", str(at_once)),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--max-logprobs", "-1", "--logprobs-mode", "raw_logprobs", *more),
        ]
        if speculative:
            used = drafting or Drafting(method="draft_model", place=folder / "draft")
            config = {"method": used.method, "model": str(used.place)}
            config |= {"num_speculative_tokens": gamma, **(settings or {})}
            words += ["--speculative-config", json.dumps(config)]
            words += ["--per-request-spec-decode-metrics", level]
        with _process(words, f"http://127.0.0.1:{port}", "/health") as address:
            yield address


@contextmanager
def llamacpp(
    *,
    speculative: bool = True,
    gamma: int = GAMMA,
    chat: bool = False,
    drafting: Drafting | None = None,
    model: Path | None = None,
    at_once: int = 1,
) -> Iterator[str]:
    """Start llama.cpp's server with the embedded pair, or with the GGUF file ``model`` alone.

    It decodes at most ``at_once`` requests at the same time.
    """
    port = free_port()
    with TemporaryDirectory(prefix="specviz-") as folder:
        target, draft = model or Path(folder, "target.gguf"), Path(folder, "draft.gguf")
        if model is None:
            write_pair(target, draft)
        used = drafting or Drafting(method="draft-simple", place=draft)
        template = CHAT_TEMPLATE if chat else ""
        words = [str(python_of("llamacpp")), str(_LLAMACPP), template, str(port)]
        words += [str(at_once), str(target)]
        words += [str(used.place), str(gamma), used.method] if speculative else []
        with _process(words, f"http://127.0.0.1:{port}", "/health") as address:
            yield address


_WAYS = {"vllm": vllm, "llamacpp": llamacpp}
NAMES = tuple(f"{engine}{kind}" for engine in _WAYS for kind in ("", "-plain", "-chat"))


def write_chat_pair(folder: Path) -> Path:
    """Return the embedded pair with an added chat template."""
    for role in ("target", "draft"):
        (folder / role).mkdir()
        for each in (PAIR / role).iterdir():
            (folder / role / each.name).symlink_to(each)
        (folder / role / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    return folder


def write_pair(target: Path, draft: Path) -> None:
    """Write both models as GGUF with their vocabulary, in float32 like our engine."""
    for packages in (ENGINES / "llamacpp" / "lib").glob("python*/site-packages"):
        sys.path.append(str(packages))
    from specviz.bench.gguf_model import write_model
    from specviz.engine.loading.loading import load_pair
    from specviz.record.pairs import PairSpec
    from tests.formats.gguf_words import words_of

    pair = load_pair(PairSpec(threads=1, dtype="float32"))
    assert pair.draft is not None
    words = words_of(PAIR / "target" / "tokenizer.json")
    write_model(pair.target, pair.vocabulary, target, words)
    write_model(pair.draft, pair.vocabulary, draft, words)


def chat_head() -> Path:
    """Return the folder of the chat model's EAGLE-3 head."""
    from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, pairs_folder

    return pairs_folder() / CHAT_PAIR / CHAT_HEAD.removeprefix(f"{CHAT_PAIR}-")


def write_chat_model(folder: Path) -> None:
    """Write the chat model in float32 as transformers stores one, with its tokenizer."""
    from specviz.engine.loading.loading import load_pair
    from specviz.record.pairs import CHAT_PAIR, PairSpec
    from specviz.training.drafts.small import save_tokenizer

    pair = load_pair(PairSpec(name=CHAT_PAIR, threads=1, dtype="float32", step="library"))
    model: Any = pair.target  # of transformers, because of its step
    model.save_pretrained(folder)
    save_tokenizer(pair.tokenizer, folder)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def _environment() -> Mapping[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
    }


@contextmanager
def _process(words: Sequence[str], address: str, health: str) -> Iterator[str]:
    """Start the process in a new session, so that its children end with it."""
    with TemporaryDirectory(prefix="specviz-") as folder:
        log = Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen(
                words,
                env=_environment(),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait_until_ready(process, address + health, log)
            yield address
        finally:
            _end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], page: str, log: Path) -> None:
    end = time.monotonic() + READY_WITHIN
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            if httpx2.get(page, timeout=2, trust_env=False).is_success:
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.3)
    raise RuntimeError(f"{page} does not answer:\n{log.read_text(errors='replace')[-4000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=15)


def main(name: str) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with running(name) as address:
        print(address, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main(sys.argv[1])

"""Decode with a pair's weights in llama.cpp, in this process, if its wheel is installed.

llama.cpp loads the same weights from GGUF files and uses as many threads as the pair. The KV cache
is in fp16, the default and fastest type of llama.cpp. llama.cpp reports the time per token, without
the first token, which prefill produces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from specviz.bench.gguf_model import cannot_write, write_model
from specviz.bench.lanes import BenchLane, Write, Written
from specviz.installation import INSTALL_RIVALS

if TYPE_CHECKING:
    from specviz.engine import Pair

NOT_INSTALLED = f"llama.cpp is not installed: {INSTALL_RIVALS}"
_PACKAGES = ("xllamacpp", "gguf")
_CONTEXT = 1024


@contextmanager
def open_lanes(pair: Pair, gamma: int) -> Iterator[tuple[BenchLane, ...]]:
    """Load the pair into llama.cpp; yield a plain and, if possible, a speculative lane.

    The speculative lane needs a draft with the target's vocabulary that can be written as GGUF.
    llama.cpp rounds differently, so its text may diverge where two tokens are almost equally
    likely. The lanes map GGUF files into memory; the end of the ``with`` block deletes the files.
    """
    with TemporaryDirectory(prefix="specviz-", ignore_cleanup_errors=True) as folder:
        target, draft = Path(folder, "target.gguf"), Path(folder, "draft.gguf")
        write_model(pair.target, pair.vocabulary, target)
        lanes = [_lane("llamacpp", "llama.cpp plain", _server(pair, target))]
        same = pair.shared is None  # llama.cpp needs the same vocabulary in both models
        if same and pair.draft is not None and cannot_write(pair.draft) is None:
            write_model(pair.draft, pair.vocabulary, draft)
            server = _server(pair, target, draft, gamma)
            lanes.append(_lane("llamacpp_speculative", f"llama.cpp speculative, γ {gamma}", server))
        yield tuple(lanes)


@contextmanager
def open_file(pair: Pair, file: Path) -> Iterator[tuple[BenchLane, ...]]:
    """Load a GGUF file into llama.cpp; yield lanes for plain decoding and for n-gram lookup."""

    def read(text: str) -> tuple[int, ...]:
        return tuple(pair.tokenizer.encode(text, add_special_tokens=False))

    yield (
        _lane("llamacpp", "llama.cpp plain", _server(pair, file), read),
        _lane("llamacpp_lookup", "llama.cpp n-gram lookup", _server(pair, file, lookup=True), read),
    )


def _ids(text: str) -> tuple[int, ...]:
    """Return the ids of a text's tokens. In GGUF files written here, a token's text is its id."""
    return tuple(int(word) for word in text.split())


def _lane(
    key: str, name: str, server: Any, read: Callable[[str], tuple[int, ...]] = _ids
) -> BenchLane:
    return BenchLane(key=key, name=name, write=_writes(server, read), must_agree=False)


def missing(pair: Pair) -> str | None:
    """Return why llama.cpp cannot run this pair, or None if it can."""
    if not _installed():
        return NOT_INSTALLED
    if pair.device.type != "cpu":
        return "llama.cpp is compared on the CPU only"
    reason = cannot_write(pair.target)
    return reason and f"llama.cpp has no lane: {reason}"


def version() -> str | None:
    """Return llama.cpp's version and CPU features, or None if it is not installed."""
    if not _installed():
        return None
    library = import_module("xllamacpp")
    return f"{library.__version__}, {library.get_system_info().strip(' |')}"


def _installed() -> bool:
    return all(find_spec(package) is not None for package in _PACKAGES)


def _server(
    pair: Pair, target: Path, draft: Path | None = None, gamma: int = 0, *, lookup: bool = False
) -> Any:
    library = import_module("xllamacpp")
    threads = pair.environment.threads
    params = library.CommonParams()
    params.model.path = str(target)
    params.verbosity = 0
    params.n_ctx, params.n_parallel, params.n_gpu_layers = _CONTEXT, 1, 0
    params.fit_params, params.cache_ram_mib = False, 0
    _set_threads(params, threads)
    kinds = library.common_speculative_type
    if lookup:
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
    if draft is not None:
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        drafting = params.speculative.draft
        drafting.mparams.path = str(draft)
        drafting.n_max, drafting.n_min, drafting.p_min = gamma, 0, 0.0
        drafting.n_gpu_layers = 0
        _set_threads(drafting, threads)
    return library.Server(params)


def _set_threads(params: Any, threads: int) -> None:
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads


def _writes(server: Any, read: Callable[[str], tuple[int, ...]]) -> Write:
    def write(ids: Sequence[int], num_tokens: int) -> Written:
        answer = server.handle_completions(
            {
                "prompt": list(ids),
                "max_tokens": num_tokens,
                "temperature": 0,
                "samplers": ["top_k"],
                "top_k": 1,
                "cache_prompt": False,
                "ignore_eos": True,
            }
        )
        tokens = read(answer["choices"][0]["text"])
        seconds = answer["timings"]["predicted_per_token_ms"] / 1000 * len(tokens)
        return Written(seconds=seconds, token_ids=tokens)

    return write

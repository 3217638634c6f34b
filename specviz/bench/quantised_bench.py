"""Benchmark of quantised weights: a GGUF file and requantised copies, in specviz and llama.cpp.

Both engines load the same file with the same number of threads and write the same number of tokens,
greedily. They round activations differently, so the texts differ after some tokens. Times remain
comparable, because the time per token hardly depends on the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from specviz.bench import llamacpp
from specviz.bench.lanes import BenchLane, own_lanes
from specviz.bench.paired_ratios import PairedRatio, paired_ratio
from specviz.bench.timing import Text
from specviz.errors import ConfigError
from specviz.formats.gguf_header import read_header
from specviz.formats.gguf_parts import read_parts
from specviz.formats.gguf_requantising import write_requantised
from specviz.installation import INSTALL_CHAT
from specviz.measure.slice_timing import undisturbed
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.token_text import common_prefix
from specviz.record.trace import RunConfig

if TYPE_CHECKING:
    from specviz.engine import Pair

Say = Callable[[str], None]
Load = Callable[[PairSpec], "Pair"]

_GAMMA, _TOKENS, _VERIFIED = 5, 64, 6
_STORED = "stored"
# Each ratio is the time of the first lane / that of the second, a lane of specviz. Above 1, the
# second lane is faster.
_RATIOS = {
    "plain_vs_llamacpp": ("llamacpp", "plain"),
    "lookup_vs_llamacpp_lookup": ("llamacpp_lookup", "bare"),
    "lookup_vs_plain": ("plain", "bare"),
}


def run_quantised_bench(
    spec: PairSpec, types: Sequence[str], repeats: int, load: Load, say: Say
) -> dict[str, Any]:
    """Run the bench and return JSON values.

    Args:
        types: GGUF types of copies to make and measure, besides the file itself.
    """
    file = Path(spec.target_place)
    if file.suffix != ".gguf" or not file.is_file():
        raise ConfigError(
            f"{spec.title} is not a GGUF file.",
            remedy="Give a GGUF file with --target, or install the chat model with "
            f"`{INSTALL_CHAT}`.",
        )
    if len(read_parts(file)) > 1:
        raise ConfigError(
            f"{spec.title} has several parts.", remedy="Join the parts into one file."
        )
    own = PairSpec(target=str(file), device="cpu", threads=spec.threads)
    plain = load(replace(own, target_weights="float"))
    texts = _texts(plain)
    reference = [_scores(plain, text) for text in texts]
    float_seconds = _seconds_per_token(plain, texts)
    rows: list[dict[str, Any]] = []
    ratios: dict[str, PairedRatio] = {}
    with TemporaryDirectory(prefix="specviz-", ignore_cleanup_errors=True) as folder:
        for kind in (_STORED, *types):
            path = file if kind == _STORED else Path(folder, f"{kind}.gguf")
            if kind != _STORED:
                say(f"writing a copy in {kind.upper()}")
                write_requantised(file, kind.upper(), path)
            say(f"loading {path.name}")
            pair = load(replace(own, target=str(path)))
            name = f"{kind}: {pair.info.target.weights}" if kind == _STORED else kind.upper()
            seconds = _time(pair, path, texts, repeats, say)
            made = {key: paired_ratio(seconds[a], seconds[b]) for key, (a, b) in _RATIOS.items()
                    if a in seconds and b in seconds}  # fmt: skip
            ratios |= {f"{name} {key}": each for key, each in made.items()}
            rows.append(
                {
                    "weights": name,
                    "megabytes": read_header(path).file_bytes / 1e6,
                    **{lane: 1 / median(each) for lane, each in seconds.items()},
                    "times_float32": float_seconds / median(seconds["plain"]),
                    f"v({_VERIFIED})": _verification(pair),
                }
                | (_difference(reference, pair, texts) if kind == _STORED else {})
            )
    return {
        "environment": asdict(plain.environment),
        "settings": {
            "repeats": repeats, "max_new_tokens": _TOKENS, "gamma": _GAMMA,
            "llamacpp": llamacpp.version(),
        },
        "ratios": {name: each.value for name, each in ratios.items()},
        "intervals": {name: [each.low, each.high] for name, each in ratios.items()},
        "rows": rows,
        "notices": [] if llamacpp.version() else [llamacpp.NOT_INSTALLED],
    }  # fmt: skip


def _texts(pair: Pair) -> list[Text]:
    from specviz.engine.model.chat import encode_prompt

    chat = bool(getattr(pair.tokenizer, "chat_template", None))
    first = {preset.kind: preset for preset in reversed(read_presets())}
    return [
        Text(
            kind=each.kind,
            ids=tuple(encode_prompt(pair, each.text, chat=chat)),
            num_tokens=_TOKENS,
        )
        for each in first.values()
    ]


def _config() -> RunConfig:
    return RunConfig(
        gamma=_GAMMA, temperature=0.0, max_new_tokens=_TOKENS, ignore_eos=True,
        drafter="prompt-lookup",
    )  # fmt: skip


def _time(
    pair: Pair, file: Path, texts: Sequence[Text], repeats: int, say: Say
) -> dict[str, list[float]]:
    """Return the seconds per token of each lane in each repeat."""
    with ExitStack() as opened:
        lanes: list[BenchLane] = list(own_lanes(pair, _config())[1:])
        if llamacpp.version() is not None:
            lanes += opened.enter_context(llamacpp.open_file(pair, file))
        seconds: dict[str, list[float]] = {lane.key: [] for lane in lanes}
        _one_repeat(lanes, texts)  # warms up
        for repeat in range(repeats):
            say(f"interleaved repeat {repeat + 1} of {repeats}")
            for key, value in _one_repeat(lanes[:: -1 if repeat % 2 else 1], texts).items():
                seconds[key].append(value)
    return seconds


def _one_repeat(lanes: Sequence[BenchLane], texts: Sequence[Text]) -> dict[str, float]:
    spent = {lane.key: 0.0 for lane in lanes}
    for text in texts:
        with undisturbed():
            for lane in lanes:
                written = lane.write(text.ids, text.num_tokens)
                spent[lane.key] += written.seconds / len(written.token_ids) / len(texts)
    return spent


def _seconds_per_token(pair: Pair, texts: Sequence[Text]) -> float:
    lanes = own_lanes(pair, _config())[2:]
    return min(_one_repeat(lanes, texts)["plain"] for _ in range(3))


def _scores(pair: Pair, text: Text) -> tuple[tuple[int, ...], torch.Tensor]:
    """Return the greedy continuation of a text, and the log-probabilities along it."""
    ids = own_lanes(pair, _config())[2].write(text.ids, text.num_tokens).token_ids
    return ids, _log_probs(pair, text, ids)


def _log_probs(pair: Pair, text: Text, ids: Sequence[int]) -> torch.Tensor:
    step = pair.target_step(len(text.ids) + len(ids))
    step.feed(torch.tensor(text.ids[:-1]), 0)
    rows = [step.feed(torch.tensor([each]), 1) for each in (text.ids[-1], *ids[:-1])]
    return torch.cat(rows).log_softmax(-1)


def _difference(
    reference: Sequence[tuple[tuple[int, ...], torch.Tensor]], pair: Pair, texts: Sequence[Text]
) -> dict[str, Any]:
    """Return how far the pair's distributions and texts are from those in ``reference``.

    ``reference`` has, for each text, the tokens and log-probabilities of dequantised weights.
    """
    kl, distance, same = [], [], []
    for (ids, old), text in zip(reference, texts, strict=True):
        new = _log_probs(pair, text, ids)
        kl.append(float((old.exp() * (old - new)).sum(-1).mean()))
        distance.append(float((old.exp() - new.exp()).abs().sum(-1).mean()) / 2)
        own = own_lanes(pair, _config())[2].write(text.ids, text.num_tokens).token_ids
        same.append(common_prefix(own, ids))
    return {
        "kl_nats": sum(kl) / len(kl),
        "total_variation": sum(distance) / len(distance),
        "first_divergence": median(same),
    }


def _verification(pair: Pair) -> float:
    """Return the time of a target pass over six tokens, divided by the time for one token.

    The context has 64 tokens.
    """
    step = pair.target_step(128)
    ids = torch.arange(64) + 100
    step.feed(ids, 0)

    def seconds(count: int) -> float:
        begin = perf_counter()
        step.feed(ids[:count], count)
        spent = perf_counter() - begin
        step.forget(count)
        return spent

    pairs = [(seconds(_VERIFIED), seconds(1)) for _ in range(30)]
    return median(six / one for six, one in pairs)

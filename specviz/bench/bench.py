"""The bench: this engine against transformers on the same pair, prompts and threads.

Greedy; prefill is timed apart; every repeat runs all lanes in turn, and medians of the repeats are
compared. In float32 the lanes must write the same tokens and, at the fixed gamma, make the same
number of target passes, or the bench refuses. In half precision it reports where they diverged. A
ratio above 1 means that this engine is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from specviz.bench.bench_figures import BenchFigures, measure_figures
from specviz.bench.divergence import Divergence, divergences, exact
from specviz.bench.rivals import Assistance, assisted, generate
from specviz.errors import PairError
from specviz.measure.measured_run import undisturbed
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig

if TYPE_CHECKING:
    from specviz.engine import Pair

Say = Callable[[str], None]

GAMMA = 5
_LARGE_VOCABULARY = 128_000
_GRID = tuple(Assistance(gamma=g, threshold=t) for g in (3, 5, 8, 20) for t in (0.0, 0.2, 0.4, 0.6))
_FIXED = Assistance(gamma=GAMMA, threshold=0.0)
_DEFAULTS = Assistance()


@dataclass(slots=True)
class _Lane:
    """One way to write the texts, and the seconds it took: [prompt][repeat]."""

    name: str
    write: Callable[[Sequence[int]], _Written]
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The median of the repeats, summed over the prompts."""
        return sum(median(values) for values in self.seconds.values())


@dataclass(frozen=True, slots=True)
class _Written:
    seconds: float
    token_ids: tuple[int, ...]
    target_forwards: int | None = None


def run_bench(pair: Pair, *, repeats: int, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of the bench; ``quick`` uses fewer prompts and shorter texts."""
    config = RunConfig(
        gamma=GAMMA, temperature=0.0, max_new_tokens=48 if quick else 128, ignore_eos=True
    )
    prompts = _one_of_each_kind()
    best = _best_assistance(pair, prompts[:2] if quick else prompts, config, say)
    lanes = _lanes(pair, config, best)
    parted = _interleave(pair, lanes, prompts, repeats, say)
    figures = measure_figures(pair, prompts, config, say)
    ratios = _ratios(lanes, figures)
    ratios["record_cost_large_vocabulary"] = _large_vocabulary_record_cost(config, repeats, say)
    return {
        "environment": asdict(pair.environment),
        "pair": asdict(pair.info),
        "settings": {"gamma": GAMMA, "max_new_tokens": config.max_new_tokens, "repeats": repeats},
        "ratios": ratios,
        "rows": _rows(lanes, len(prompts) * config.max_new_tokens),
        "divergences": [asdict(each) for each in parted],
        "figures": figures.as_dict() | {"best_assistance": str(best)},
    }


def _one_of_each_kind() -> list[Preset]:
    by_kind: dict[str, Preset] = {}
    for preset in read_presets():
        by_kind.setdefault(preset.kind, preset)
    return list(by_kind.values())


def _lanes(pair: Pair, config: RunConfig, best: Assistance) -> dict[str, _Lane]:
    def rival(assistance: Assistance | None) -> Callable[[Sequence[int]], _Written]:
        return lambda ids: _rival(pair, ids, config, assistance)

    return {
        "record": _Lane("speculative, full record", lambda ids: _speculative(pair, ids, config)),
        "bare": _Lane(
            "speculative, no record",
            lambda ids: _speculative(pair, ids, replace(config, record=False)),
        ),
        "plain": _Lane("plain", lambda ids: _plain(pair, ids, config)),
        "hf": _Lane("transformers generate", rival(None)),
        "hf_fixed": _Lane(f"transformers assisted, {_FIXED}", rival(_FIXED)),
        "hf_default": _Lane("transformers assisted, defaults", rival(_DEFAULTS)),
        "hf_best": _Lane(f"transformers assisted, best: {best}", rival(best)),
    }


def _interleave(
    pair: Pair, lanes: dict[str, _Lane], prompts: Sequence[Preset], repeats: int, say: Say
) -> list[Divergence]:
    """Run all lanes in turn on every prompt, once to warm up and then ``repeats`` times.

    Returns where a lane first diverged from plain decoding, for every prompt.
    """
    parted: dict[tuple[str, str], Divergence] = {}
    for repeat in range(repeats + 1):
        say(f"interleaved repeat {repeat} of {repeats}")
        for preset in prompts:
            ids = _encode(pair, preset)
            with undisturbed():
                written = {key: lane.write(ids) for key, lane in lanes.items()}
            _check_passes(pair, written)
            texts = {lanes[key].name: each.token_ids for key, each in written.items()}
            for each in divergences(pair, preset.kind, ids, texts):
                parted.setdefault((each.lane, each.kind), each)
            if repeat:
                for key, lane in lanes.items():
                    lane.seconds.setdefault(preset.text, []).append(written[key].seconds)
    return list(parted.values())


def _check_passes(pair: Pair, written: dict[str, _Written]) -> None:
    """Lanes with the same words and exact drafts must have made the same target passes."""
    ours, theirs = (written[key].target_forwards for key in ("bare", "hf_fixed"))
    same_words = written["bare"].token_ids == written["hf_fixed"].token_ids
    if exact(pair) and same_words and ours != theirs:
        raise PairError(
            f"At γ {GAMMA} this engine made {ours} target passes and transformers {theirs}.",
            remedy="Their work is not comparable: try the library step, or bench another pair.",
        )


def _ratios(lanes: dict[str, _Lane], figures: BenchFigures) -> dict[str, float | None]:
    ours = lanes["record"].total
    return {
        "vs_hf_assisted_same_gamma": lanes["hf_fixed"].total / ours,
        "vs_hf_assisted_best": lanes["hf_best"].total / ours,
        "vs_hf_assisted_defaults": lanes["hf_default"].total / ours,
        "plain_vs_hf_generate": lanes["hf"].total / lanes["plain"].total,
        "record_cost": lanes["bare"].total / ours,
        "accounting": figures.accounting,
        "forecast_error": figures.forecast_error,
    }


def _rows(lanes: dict[str, _Lane], num_tokens: int) -> list[dict[str, Any]]:
    return [
        {"lane": lane.name, "tokens_per_second": num_tokens / lane.total, "seconds": lane.total}
        for lane in lanes.values()
    ]


def _speculative(pair: Pair, ids: Sequence[int], config: RunConfig) -> _Written:
    from specviz.engine import speculate

    run = speculate(pair, ids, config)
    began = time.perf_counter()
    rounds = list(run)
    return _Written(time.perf_counter() - began, run.emitted, len(rounds))


def _plain(pair: Pair, ids: Sequence[int], config: RunConfig) -> _Written:
    from specviz.engine import decode_plainly

    run = decode_plainly(pair, ids, config)
    began = time.perf_counter()
    tokens = tuple(run)
    return _Written(time.perf_counter() - began, tokens)


def _rival(
    pair: Pair, ids: Sequence[int], config: RunConfig, assistance: Assistance | None
) -> _Written:
    if assistance is None:
        run = generate(pair, ids, config.max_new_tokens)
    else:
        run = assisted(pair, ids, config.max_new_tokens, assistance)
    return _Written(run.seconds, run.token_ids, run.target_forwards)


def _best_assistance(
    pair: Pair, prompts: Sequence[Preset], config: RunConfig, say: Say
) -> Assistance:
    """The settings of a small grid that are fastest for transformers, over all prompts."""
    say(f"searching transformers' best of {len(_GRID)} settings")
    seconds = dict.fromkeys(_GRID, 0.0)
    for preset in prompts:
        ids = _encode(pair, preset)
        for assistance in _GRID:
            times = [_rival(pair, ids, config, assistance).seconds for _ in range(2)]
            seconds[assistance] += min(times)
    return min(seconds, key=lambda assistance: seconds[assistance])


def _large_vocabulary_record_cost(config: RunConfig, repeats: int, say: Say) -> float:
    """What recording costs with a vocabulary of 128,000 tokens, on a tiny random pair."""
    from specviz.bench.random_pair import random_pair

    say(f"record cost with a vocabulary of {_LARGE_VOCABULARY:,}")
    pair = random_pair(vocabulary=_LARGE_VOCABULARY)
    short = replace(config, max_new_tokens=48)
    prompt = list(range(16))
    lanes = [replace(short, record=True), replace(short, record=False)]
    times: list[list[float]] = [[], []]
    for repeat in range(repeats + 1):
        for kept, settings in zip(times, lanes, strict=True):
            with undisturbed():
                seconds = _speculative(pair, prompt, settings).seconds
            if repeat:
                kept.append(seconds)
    return median(times[1]) / median(times[0])


def _encode(pair: Pair, preset: Preset) -> list[int]:
    from specviz.engine.model.chat import encode_prompt

    return encode_prompt(pair, preset.text, chat=False)

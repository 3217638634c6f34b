"""The bench: specviz's engine against transformers and llama.cpp, with the same pair and threads.

A lane is an engine with a method, such as plain decoding. All lanes decode greedily, and prefill is
not timed. Every repeat runs all lanes in turn on the same prompts; a ratio is the median over
repeats. A ratio above 1 means that specviz's engine is faster. The bench measures the pair at its
real size and with an enlarged target, which is slower but has the same output (a simulated size).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from specviz.bench import llamacpp
from specviz.bench.bench_figures import BenchFigures, measure_figures
from specviz.bench.lanes import (
    BenchLane,
    own_lanes,
    transformers_lanes,
)
from specviz.bench.paired_ratios import LaneRatio, PairedRatio, paired_ratio, paired_ratios
from specviz.bench.rivals import Assistance
from specviz.bench.timing import Text, TimedLanes, best_assistance, time_lanes
from specviz.errors import SpecvizError
from specviz.record.bodies import NO_BODY
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

Say = Callable[[str], None]
Load = Callable[[str], "Pair"]  # takes the name of the target's body

GAMMA = 5
_LARGE_VOCABULARY = 128_000
_GRID = tuple(Assistance(gamma=g, threshold=t) for g in (3, 5, 8, 20) for t in (0.0, 0.2, 0.4, 0.6))
_FIXED = Assistance(gamma=GAMMA, threshold=0.0)
_DEFAULTS = Assistance()

_COMMON = (
    LaneRatio(name="speculative_vs_plain", over="plain", under="record"),
    LaneRatio(name="record_cost", over="bare", under="record"),
    LaneRatio(name="speculative_vs_llamacpp", over="llamacpp", under="record"),
    LaneRatio(name="plain_vs_llamacpp", over="llamacpp", under="plain"),
    LaneRatio(
        name="speculative_vs_llamacpp_speculative", over="llamacpp_speculative", under="record"
    ),
)
_COMPARISONS = (
    LaneRatio(name="vs_hf_assisted_same_gamma", over="hf_fixed", under="record"),
    LaneRatio(name="vs_hf_assisted_best", over="hf_best", under="record"),
    LaneRatio(name="vs_hf_assisted_defaults", over="hf_default", under="record"),
    LaneRatio(name="plain_vs_hf_generate", over="hf", under="plain"),
    *_COMMON,
)
_COMPARISONS_OF_A_BODY = tuple(replace(each, name=f"body_{each.name}") for each in _COMMON)


class _Amount(Value):
    """How much to measure; ``body_…`` applies to the enlarged target, which is slower."""

    repeats: int
    num_tokens: int
    prompts: tuple[Preset, ...]
    grid_prompts: tuple[Preset, ...]
    body_tokens: int
    body_prompts: tuple[Preset, ...]


class _Part(Value):
    """The results of the pair at one size: the real or a simulated one."""

    pair: dict[str, Any]
    environment: dict[str, Any]
    timed: TimedLanes
    ratios: dict[str, PairedRatio | None]
    notices: tuple[str, ...]


def run_bench(load: Load, *, body: str, repeats: int, quick: bool, say: Say) -> dict[str, Any]:
    """Run the bench and return JSON values. ``quick`` means fewer prompts and shorter texts."""
    amount = _amount(repeats, quick=quick)
    own, figures, best = _without_body(load, amount, say)
    grown, notices = _with_body(load, body, amount, say)
    parts = {NO_BODY: own} | ({body: grown} if grown else {})
    unmeasured = dict.fromkeys(each.name for each in _COMPARISONS_OF_A_BODY)
    ratios = own.ratios | (grown.ratios if grown else unmeasured)
    return {
        "environment": own.environment,
        "pairs": {name: part.pair for name, part in parts.items()},
        "settings": _settings(amount, body),
        "ratios": {name: each and each.value for name, each in ratios.items()}
        | {"accounting": figures.accounting, "forecast_error": figures.forecast_error},
        "intervals": {name: _interval(each) for name, each in ratios.items()},
        "rows": [{"body": n} | row for n, part in parts.items() for row in part.timed.rows()],
        "divergences": [
            {"body": n} | asdict(each) for n, part in parts.items() for each in part.timed.parted
        ],
        "notices": list(dict.fromkeys((*own.notices, *(grown.notices if grown else notices)))),
        "figures": figures.as_dict() | {"best_assistance": str(best)},
    }


def _settings(amount: _Amount, body: str) -> dict[str, Any]:
    return {
        "gamma": GAMMA,
        "repeats": amount.repeats,
        "max_new_tokens": amount.num_tokens,
        "body": body,
        "max_new_tokens_with_body": amount.body_tokens,
        "llamacpp": llamacpp.version(),
    }


def _interval(ratio: PairedRatio | None) -> list[float] | None:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    return [ratio.low, ratio.high]


def _amount(repeats: int, *, quick: bool) -> _Amount:
    by_kind: dict[str, Preset] = {}
    for preset in read_presets():
        by_kind.setdefault(preset.kind, preset)
    prompts = tuple(by_kind.values())
    few = prompts[:2] if quick else prompts
    return _Amount(
        repeats=repeats,
        num_tokens=48 if quick else 128,
        prompts=prompts,
        grid_prompts=few,
        body_tokens=32 if quick else 48,
        body_prompts=few,
    )


def _without_body(load: Load, amount: _Amount, say: Say) -> tuple[_Part, BenchFigures, Assistance]:
    pair = load(NO_BODY)
    grid_texts = _texts(pair, amount.grid_prompts, amount.num_tokens)
    best = best_assistance(pair, grid_texts, _GRID, say)
    rivals = transformers_lanes(pair, fixed=_FIXED, defaults=_DEFAULTS, best=best)
    texts = _texts(pair, amount.prompts, amount.num_tokens)
    part = _part(pair, rivals, texts, _COMPARISONS, amount.repeats, say)
    figures = measure_figures(pair, amount.prompts, _config(amount.num_tokens), say)
    cost = _large_vocabulary_record_cost(amount.repeats, say)
    ratios = part.ratios | {"record_cost_large_vocabulary": cost}
    return replace(part, ratios=ratios), figures, best


def _with_body(
    load: Load, body: str, amount: _Amount, say: Say
) -> tuple[_Part | None, tuple[str, ...]]:
    """Return the results at the simulated size ``body``, and notices.

    The results are None if ``body`` is ``NO_BODY``, or if loading fails. A notice reports the
    failure.
    """
    if body == NO_BODY:
        return None, ()
    say(f"at a simulated size of {body}")
    try:
        pair = load(body)
    except SpecvizError as error:
        return None, (f"No lanes at a simulated size of {body}: {error}",)
    texts = _texts(pair, amount.body_prompts, amount.body_tokens)
    return _part(pair, (), texts, _COMPARISONS_OF_A_BODY, amount.repeats, say), ()


def _part(
    pair: Pair,
    rivals: Sequence[BenchLane],
    texts: Sequence[Text],
    comparisons: Sequence[LaneRatio],
    repeats: int,
    say: Say,
) -> _Part:
    lanes = (*own_lanes(pair, _config(texts[0].num_tokens)), *rivals)
    with ExitStack() as opened:
        missing = llamacpp.missing(pair)
        if missing is None:
            say("loading the same weights in llama.cpp")
            lanes += opened.enter_context(llamacpp.open_lanes(pair, GAMMA))
        timed = time_lanes(pair, lanes, texts, repeats, say)
    return _Part(
        pair=asdict(pair.info),
        environment=asdict(pair.environment),
        timed=timed,
        ratios=paired_ratios(comparisons, timed.seconds),
        notices=(*((missing,) if missing else ()), *timed.notices),
    )


def _config(num_tokens: int) -> RunConfig:
    return RunConfig(gamma=GAMMA, temperature=0.0, max_new_tokens=num_tokens, ignore_eos=True)


def _texts(pair: Pair, prompts: Sequence[Preset], num_tokens: int) -> tuple[Text, ...]:
    from specviz.engine.model.chat import encode_prompt

    return tuple(
        Text(
            kind=preset.kind,
            ids=tuple(encode_prompt(pair, preset.text, chat=False)),
            num_tokens=num_tokens,
        )
        for preset in prompts
    )


def _large_vocabulary_record_cost(repeats: int, say: Say) -> PairedRatio:
    """Return the time without recording, divided by the time with recording.

    The pair has random weights and a vocabulary of 128,000 tokens.
    """
    from specviz.bench.random_pair import random_pair

    say(f"record cost with a vocabulary of {_LARGE_VOCABULARY:,}")
    pair = random_pair(vocabulary=_LARGE_VOCABULARY)
    text = Text(kind="random", ids=tuple(range(16)), num_tokens=48)
    timed = time_lanes(pair, own_lanes(pair, _config(48))[:2], [text], repeats, lambda _: None)
    return paired_ratio(timed.seconds["bare"], timed.seconds["record"])

"""Claims of the practical guide about hardware: memory, cost of a pass, small models, timing."""

from __future__ import annotations

import math

from specviz.theory.claims.claim import (
    GUIDE,
    Chart,
    Claim,
    Figure,
    crossing,
    first,
    rounded_down,
    speed_chart,
    verdict_for,
)
from specviz.theory.papers import LEVIATHAN
from specviz.theory.roofline import (
    DRAFT_HALF_B,
    GPUS,
    TARGET_8B,
    Gpu,
    Serving,
    largest_batch,
    sized,
)
from specviz.theory.speed import best_gamma, speedup

_TERABYTE = 1e12
_SIZES = (8e9, 70e9, 405e9)  # dense models in common use
_OVERHEADS = (
    0.0,
    0.25,
    0.5,
    1.0,
    2.0,
    4.0,
)  # fixed cost of a step, as a share of the target's own work
_MARGINAL = 1.1  # speedups below this count as marginal
_A100, _H200 = GPUS[0], GPUS[2]
_GAMMA = 5
_CONTEXT = 1024
_GUIDE_TOKENS = 50  # max_new_tokens in the guide's listing, and its divisor


def machine_claims() -> tuple[Claim, ...]:
    return (
        _terabytes(),
        _one_pass(),
        _barely_fits(),
        _small_targets(),
        _own_benchmark(),
    )


def _terabytes() -> Claim:
    weights = [sized(TARGET_8B, size).weight_bytes for size in _SIZES]
    flip_at = crossing(lambda size: sized(TARGET_8B, size).weight_bytes - _TERABYTE, 1e9, 1e13)
    return Claim(
        id="terabytes-a-token",
        source=GUIDE,
        quote="For substantial models, this can involve transferring terabytes of data per "
        "generated token.",
        verdict=verdict_for(each >= _TERABYTE for each in weights),
        finding=f"A pass reads the weights once: in bf16 {weights[0] / 1e9:.0f} GB for 8B "
        f"parameters, {weights[1] / 1e9:.0f} GB for 70B and {weights[2] / 1e9:.0f} GB for 405B. "
        "The quote's point, that reading is the bottleneck, holds at batch size 1.",
        flip=f"A pass reads one terabyte if the model has {flip_at / 1e9:.0f} billion parameters "
        "in bf16, all of them active.",
        figures=(
            Figure(label="8B", value=weights[0] / 1e9, form=".0f", unit=" GB"),
            Figure(label="70B", value=weights[1] / 1e9, form=".0f", unit=" GB"),
            Figure(label="1 TB from", value=flip_at / 1e9, form=".0f", unit="B"),
        ),
        chart=_batch_chart("Bytes read per pass where the verdict changes", 1, target=flip_at),
    )


def _serving(batch: int) -> Serving:
    return Serving(gpu=_H200, target=TARGET_8B, draft=DRAFT_HALF_B, batch=batch, context=_CONTEXT)


def _one_pass() -> Claim:
    batches = (1, 8, 32, 64, 128, 256)
    costs = [_serving(batch).verify_cost(_GAMMA) for batch in batches]
    flip_at = first(lambda batch: _serving(batch).verify_cost(_GAMMA) > 1.1, 1, 400)
    return Claim(
        id="one-pass",
        source=GUIDE,
        quote="The computational load at this stage is comparable to a single standard forward "
        "pass, yet it facilitates the validation of multiple tokens.",
        verdict=verdict_for(cost <= 1.1 for cost in costs),
        finding=f"The load is not comparable: verifying γ + 1 = {_GAMMA + 1} tokens takes "
        f"{_GAMMA + 1} times the arithmetic. The time is comparable as long as reading the "
        f"weights takes longer than the arithmetic. For an 8B model on an H200 with {_CONTEXT} "
        f"tokens of context, the roofline gives v = {costs[0]:.2f} at batch size 1, "
        f"{costs[3]:.2f} at 64 and {costs[5]:.2f} at 256. On a real machine v must be measured.",
        flip=f"v exceeds 1.1 from batch size {flip_at} on.",
        figures=(
            Figure(label="v, batch 1", value=costs[0]),
            Figure(label="v, batch 256", value=costs[5]),
            Figure(label="verdict changes at batch", value=flip_at, form=".0f"),
        ),
        chart=_batch_chart("v at each batch size, where the verdict changes", flip_at),
        run="verification",
    )


def _batch_chart(label: str, batch: int, gpu: Gpu = _H200, **parameters: float) -> Chart:
    """Return a link to the chart whose horizontal axis is the batch size.

    ``parameters`` are the numbers of parameters of ``target`` and ``draft``.
    """
    sizes = (
        (f"misleading_{name}", math.floor(number / 1e8) / 10) for name, number in parameters.items()
    )
    return Chart(
        page="misleading",
        label=label,
        settings=(
            ("misleading_tab", "Batch and context"),
            ("misleading_gpu", gpu.name),
            ("misleading_batch", batch),
            ("misleading_batch_gamma", _GAMMA),
            ("misleading_context", _CONTEXT),
            *sizes,
        ),
    )


def _barely_fits() -> Claim:
    alone = _largest_target(_A100, 0.0)
    paired = _largest_target(_A100, 0.1)
    target, draft = sized(TARGET_8B, 0.99 * alone), sized(DRAFT_HALF_B, 0.099 * alone)
    both = largest_batch(_A100, target, draft, _CONTEXT)
    return Claim(
        id="barely-fits",
        source=GUIDE,
        quote="A valuable technique when the primary model barely fits within GPU memory "
        "constraints … both models must reside in memory.",
        verdict=verdict_for([both > 0, 1 / 1.1 - paired / alone < 0.01]),
        finding=f"The quote’s two sentences contradict each other. On 80 GB a bf16 target of up to "
        f"{alone / 1e9:.1f}B parameters fits with one text of {_CONTEXT} tokens; with a draft a "
        f"tenth of its size, up to {paired / 1e9:.1f}B. A target between these sizes barely fits "
        "and leaves no memory for the draft. If the target does not fit and is read from main "
        "memory, a draft that fits helps greatly (Sequoia, Chen et al. 2024).",
        flip=f"With a draft of a tenth of the target’s size, the target may take "
        f"{100 * paired / alone:.0f} % of the memory that it could use alone: "
        f"{paired / 1e9:.1f}B parameters on 80 GB.",
        figures=(
            Figure(label="target alone", value=alone / 1e9, form=".1f", unit="B"),
            Figure(label="with a draft", value=paired / 1e9, form=".1f", unit="B"),
        ),
        chart=_batch_chart(
            "Speedup up to the largest batch that fits", 1, _A100, target=paired, draft=0.1 * paired
        ),
    )


def _largest_target(gpu: Gpu, draft_share: float) -> float:
    """Return the parameter count of the largest target that fits into memory beside a draft.

    The draft has ``draft_share`` times the target's parameters.
    """

    def spare(size: float) -> float:
        target = sized(TARGET_8B, size)
        return largest_batch(gpu, target, sized(DRAFT_HALF_B, draft_share * size), _CONTEXT) - 0.5

    return crossing(spare, 1e9, 1e12)


def _small_targets() -> Claim:
    alpha, cost = 0.7, 0.05

    def gain(overhead: float) -> float:
        return best_gamma(alpha, _with_overhead(cost, overhead))[1]

    flip_at = crossing(lambda overhead: gain(overhead) - _MARGINAL, 0.0, 2.0)
    return Claim(
        id="small-targets",
        source=GUIDE,
        quote="Benefits are marginal for very small target models that already occupy minimal "
        "memory.",
        verdict=verdict_for(gain(overhead) < _MARGINAL for overhead in _OVERHEADS),
        finding=f"The formula contains α, c and v, not size. But every step also has a fixed "
        f"cost, which is a larger share for small models. A fixed cost as high as the rest of a "
        f"target step raises c from {cost:.2f} to {_with_overhead(cost, 1.0):.2f} and lowers the "
        f"speedup from {gain(0.0):.2f}× to {gain(1.0):.2f}× (α {alpha:.2f}). Here “marginal” means "
        f"below {_MARGINAL:g}×. The embedded target is a small model; run it to measure the "
        "speedup.",
        flip=f"The speedup falls below {_MARGINAL:g}× when the fixed cost is {flip_at:.2f} times "
        "the rest of a target step.",
        figures=(
            Figure(label="no fixed cost", value=gain(0.0), unit="×"),
            Figure(label="fixed cost = rest of step", value=gain(1.0), unit="×"),
            Figure(label="fixed cost for 1.1×", value=flip_at),
        ),
        chart=speed_chart(
            "Speedup where the verdict changes",
            alpha=alpha,
            c=rounded_down(_with_overhead(cost, flip_at)),
        ),
        run="speed",
    )


def _with_overhead(cost: float, overhead: float) -> float:
    """Return the ratio of draft to target step time with an overhead in both times.

    ``cost`` is the ratio without the overhead. ``overhead`` is the added time in target steps.
    """
    return (cost + overhead) / (1 + overhead)


def _own_benchmark() -> Claim:
    greedy, sampled = (
        next(each for each in LEVIATHAN if each.temperature == temperature and each.task == "EnDe")
        for temperature in (0, 1)
    )
    speeds = [speedup(each.alpha, each.gamma, each.c) for each in (greedy, sampled)]
    short, cold = _reported(ended=30), _reported(warm_up=25)
    flip_at = crossing(lambda ended: _reported(ended=ended) - 2, 1, 50)
    return Claim(
        id="own-benchmark",
        source=GUIDE,
        quote="do_sample=False … {50/baseline_time:.2f} … do_sample=True … "
        "num_assistant_tokens=10 … {50/speculative_time:.2f} … speedup = baseline_time / "
        "speculative_time",
        verdict=verdict_for(abs(each - 1) < 0.01 for each in (short, cold, speeds[0] / speeds[1])),
        finding="For a pair without any speedup, the guide's listing prints "
        f"{short:.2f}× if the sampled text ends after 30 tokens instead of {_GUIDE_TOKENS}. It "
        f"prints {cold:.2f}× if the first "
        "call (the baseline) needs the time of 25 steps for warm-up. The listing also compares a "
        "greedy baseline with sampled text, although acceptance depends on temperature: by the "
        f"formula, Leviathan’s {greedy.draft} reaches {speeds[0]:.2f}× greedy and "
        f"{speeds[1]:.2f}× sampled. The listing’s γ of 10 is an upper limit: by default the "
        "library stops drafting where the draft’s confidence is low.",
        flip=f"The listing prints “2.00x faster” for a pair without any speedup if the text ends "
        f"after {flip_at:.0f} tokens. Its result is right only if both runs are warmed up "
        "and generate 50 tokens at the same temperature.",
        figures=(
            Figure(label="ends after 30", value=short, unit="×"),
            Figure(label="25 steps of warm-up", value=cold, unit="×"),
            Figure(label="greedy / sampled", value=speeds[0] / speeds[1], unit="×"),
        ),
        chart=speed_chart("Leviathan’s rows, greedy and sampled", "What papers measured"),
        run="benchmark",
    )


def _reported(*, ended: float = _GUIDE_TOKENS, warm_up: float = 0.0) -> float:
    """Return the speedup that the guide's listing prints for a pair whose real speedup is 1.

    ``ended`` is the length of the sampled text in tokens. ``warm_up`` is the time of the baseline's
    warm-up in target steps.
    """
    return (_GUIDE_TOKENS + warm_up) / ended

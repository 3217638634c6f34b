"""The guide's sentences on hardware: memory, the price of a pass, small models, its benchmark."""

from __future__ import annotations

import math

from specviz.theory.claims.claim import (
    GUIDE,
    Chart,
    Claim,
    Figure,
    crossing,
    first,
    judged,
    rounded_down,
    speed_chart,
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
_OVERHEADS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # fixed price of a step, in the target's own work
_MARGINAL = 1.1  # times as fast: less is hardly worth a second model
_A100, _H200 = GPUS[0], GPUS[2]
_GAMMA = 5
_CONTEXT = 1024
_GUIDE_TOKENS = 50  # max_new_tokens in the guide's listing, and the number that it divides by


def machine_claims() -> tuple[Claim, ...]:
    return (
        _terabytes(),
        _one_pass(),
        _barely_fits(),
        _small_targets(),
        _own_benchmark(),
    )


def _terabytes() -> Claim:
    read = [sized(TARGET_8B, size).weight_bytes for size in _SIZES]
    turn = crossing(lambda size: sized(TARGET_8B, size).weight_bytes - _TERABYTE, 1e9, 1e13)
    return Claim(
        id="terabytes-a-token",
        source=GUIDE,
        quote="For substantial models, this can involve transferring terabytes of data per "
        "generated token.",
        verdict=judged(each >= _TERABYTE for each in read),
        finding=f"A pass reads the weights once. In bf16 that is {read[0] / 1e9:.0f} GB for 8B "
        f"parameters, {read[1] / 1e9:.0f} GB for 70B and {read[2] / 1e9:.0f} GB for 405B. Its "
        "point, that reading is the limit, holds at batch 1.",
        flip=f"One terabyte a token takes {turn / 1e9:.0f} billion parameters in bf16, all of them "
        "in use.",
        figures=(
            Figure(label="8B", value=read[0] / 1e9, form=".0f", unit=" GB"),
            Figure(label="70B", value=read[1] / 1e9, form=".0f", unit=" GB"),
            Figure(label="1 TB from", value=turn / 1e9, form=".0f", unit="B"),
        ),
        chart=_batch_chart("What a pass reads at the flip", 1, target=turn),
    )


def _serving(batch: int) -> Serving:
    return Serving(gpu=_H200, target=TARGET_8B, draft=DRAFT_HALF_B, batch=batch, context=_CONTEXT)


def _one_pass() -> Claim:
    batches = (1, 8, 32, 64, 128, 256)
    prices = [_serving(batch).verify_cost(_GAMMA) for batch in batches]
    turn = first(lambda batch: _serving(batch).verify_cost(_GAMMA) > 1.1, 1, 400)
    return Claim(
        id="one-pass",
        source=GUIDE,
        quote="The computational load at this stage is comparable to a single standard forward "
        "pass, yet it facilitates the validation of multiple tokens.",
        verdict=judged(price <= 1.1 for price in prices),
        finding=f"The load is not comparable: checking γ + 1 = {_GAMMA + 1} tokens takes "
        f"{_GAMMA + 1} times the arithmetic. The time is comparable, as long as reading the "
        f"weights takes longer than computing. By the roofline of an 8B model on an H200 at "
        f"{_CONTEXT} tokens of context, v is {prices[0]:.2f} for one text, {prices[3]:.2f} "
        f"for 64 and {prices[5]:.2f} for 256 at once. A real machine’s v must be measured.",
        flip=f"v passes 1.1 at a batch of {turn}.",
        figures=(
            Figure(label="v, batch 1", value=prices[0]),
            Figure(label="v, batch 256", value=prices[5]),
            Figure(label="flips at batch", value=turn, form=".0f"),
        ),
        chart=_batch_chart("v over the batch, at the flip", turn),
        run="verification",
    )


def _batch_chart(label: str, batch: int, gpu: Gpu = _H200, **parameters: float) -> Chart:
    """At the context of the claims; ``target`` and ``draft`` in tenths of a billion."""
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
        verdict=judged([both > 0, 1 / 1.1 - paired / alone < 0.01]),
        finding=f"The two sentences work against each other. On 80 GB a bf16 target of up to "
        f"{alone / 1e9:.1f}B parameters fits with one text of {_CONTEXT} tokens; with a draft a "
        f"tenth of its size beside it, up to {paired / 1e9:.1f}B. A target between the two barely "
        "fits and leaves no room. Where the target does not fit at all and is read from main "
        "memory, a draft that fits helps greatly (Sequoia, Chen et al. 2024): another setting.",
        flip=f"With a draft a tenth of its size, a target may take {100 * paired / alone:.0f} % "
        f"of the room it could have alone: {paired / 1e9:.1f}B parameters on 80 GB.",
        figures=(
            Figure(label="target alone", value=alone / 1e9, form=".1f", unit="B"),
            Figure(label="with a draft", value=paired / 1e9, form=".1f", unit="B"),
        ),
        chart=_batch_chart(
            "Lines end where memory does", 1, _A100, target=paired, draft=0.1 * paired
        ),
    )


def _largest_target(gpu: Gpu, draft_share: float) -> float:
    """Parameters of the largest target that fits beside a draft of this share, one text."""

    def spare(size: float) -> float:
        target = sized(TARGET_8B, size)
        return largest_batch(gpu, target, sized(DRAFT_HALF_B, draft_share * size), _CONTEXT) - 0.5

    return crossing(spare, 1e9, 1e12)


def _small_targets() -> Claim:
    alpha, cost = 0.7, 0.05

    def gain(overhead: float) -> float:
        return best_gamma(alpha, _with_overhead(cost, overhead))[1]

    turn = crossing(lambda overhead: gain(overhead) - _MARGINAL, 0.0, 2.0)
    return Claim(
        id="small-targets",
        source=GUIDE,
        quote="Benefits are marginal for very small target models that already occupy minimal "
        "memory.",
        verdict=judged(gain(overhead) < _MARGINAL for overhead in _OVERHEADS),
        finding=f"Size is not in the formula; α, c and v are. But every step also has a fixed "
        f"price, and it weighs more where models are small. As large as the target’s own work, it "
        f"turns c {cost:.2f} into {_with_overhead(cost, 1.0):.2f} and {gain(0.0):.2f} times into "
        f"{gain(1.0):.2f} (α {alpha:.2f}); “marginal” is read as less than {_MARGINAL:g} times. "
        "The embedded target is such a model: a run says what it gains.",
        flip=f"The gain falls below {_MARGINAL:g} times when the fixed price is {turn:.2f} of "
        "the target’s own work.",
        figures=(
            Figure(label="no fixed price", value=gain(0.0), unit="×"),
            Figure(label="as large as the work", value=gain(1.0), unit="×"),
            Figure(label="below 1.1× from", value=turn),
        ),
        chart=speed_chart(
            "Speedup at the flip", alpha=alpha, c=rounded_down(_with_overhead(cost, turn))
        ),
        run="speed",
    )


def _with_overhead(cost: float, overhead: float) -> float:
    """c when both steps have this much, in target steps, added to them."""
    return (cost + overhead) / (1 + overhead)


def _own_benchmark() -> Claim:
    greedy, sampled = (
        next(each for each in LEVIATHAN if each.temperature == heat and each.task == "EnDe")
        for heat in (0, 1)
    )
    speeds = [speedup(each.alpha, each.gamma, each.c) for each in (greedy, sampled)]
    short, cold = _reported(ended=30), _reported(warm_up=25)
    turn = crossing(lambda ended: _reported(ended=ended) - 2, 1, 50)
    return Claim(
        id="own-benchmark",
        source=GUIDE,
        quote="do_sample=False … {50/baseline_time:.2f} … do_sample=True … "
        "num_assistant_tokens=10 … {50/speculative_time:.2f} … speedup = baseline_time / "
        "speculative_time",
        verdict=judged(abs(each - 1) < 0.01 for each in (short, cold, speeds[0] / speeds[1])),
        finding=f"A pair that gains nothing is reported {short:.2f} times as fast if its sampled "
        f"text ends after 30 tokens instead of {_GUIDE_TOKENS}, and {cold:.2f} times if the first "
        f"call, the baseline, warms up for as long as 25 steps take. And it compares a greedy "
        f"baseline with a sampled text, though acceptance moves with temperature: Leviathan’s "
        f"{greedy.draft} gains {speeds[0]:.2f} times greedy and {speeds[1]:.2f} sampled. Its "
        "γ 10 is 10 at most: by default the library stops drafting where the draft is unsure.",
        flip=f"It prints “2.00x faster” without any gain if the text ends after {turn:.0f} tokens. "
        "It is right only if both write 50 tokens at one temperature, both warm.",
        figures=(
            Figure(label="ended after 30", value=short, unit="×"),
            Figure(label="25 steps of warm-up", value=cold, unit="×"),
            Figure(label="greedy / sampled", value=speeds[0] / speeds[1], unit="×"),
        ),
        chart=speed_chart("Leviathan’s rows, greedy and sampled", "What papers measured"),
        run="benchmark",
    )


def _reported(*, ended: float = _GUIDE_TOKENS, warm_up: float = 0.0) -> float:
    """What the listing prints for a pair as fast as the target alone; times in target steps."""
    return (_GUIDE_TOKENS + warm_up) / ended

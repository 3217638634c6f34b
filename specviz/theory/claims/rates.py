"""Claims of the practical guide about acceptance, draft length and speedup."""

from __future__ import annotations

from specviz.theory.claims.claim import (
    GUIDE,
    Claim,
    Figure,
    holds_from,
    holds_up_to,
    rounded_up,
    speed_chart,
    tokens_chart,
    verdict_for,
)
from specviz.theory.estimates import alpha_from_drafted
from specviz.theory.speed import (
    alpha_for_speedup,
    best_gamma,
    break_even_alpha,
    expected_accepted,
    expected_tokens,
    speedup,
)

_COSTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # c of drafts from 1/100 to 1/3 of the target's size
_ALPHAS = (0.3, 0.6, 0.9)
_GEMMA_TARGET, _GEMMA_DRAFT = 8.54, 2.51  # billions of parameters, the guide's own pair
_GEMMA_GAMMA = 10  # num_assistant_tokens in the guide's listing


def rate_claims() -> tuple[Claim, ...]:
    return (
        _counted_acceptance(),
        _bands(),
        _draft_lengths(),
        _acceptance_length(),
        _six_tokens(),
        _two_to_three_times(),
        _ten_times_fewer(),
    )


def _counted_acceptance() -> Claim:
    gamma, accepted = 5, 3.0
    share = accepted / gamma
    alpha, two = alpha_from_drafted(share, gamma), alpha_from_drafted(share, 2)
    return Claim(
        id="counted-acceptance",
        source=GUIDE,
        quote="If you draft five tokens per round and average three acceptances, your α = 0.6.",
        verdict=verdict_for([abs(alpha - share) < 0.01]),
        finding=f"The {share:.1f} of the quote is accepted / drafted, not α. Candidates after a "
        "rejected one were never "
        f"tested, so accepted / drafted is below α: an average of three accepted candidates per "
        f"five drafted means α = {alpha:.4f}. "
        f"With α = {share:.1f} the usual formula gives {expected_tokens(share, gamma):.3f} tokens "
        f"per round, but a round of the quote’s example has {1 + accepted:.0f} on average, "
        f"including the extra token.",
        flip=f"Accepted / drafted equals α only at γ 1, where every candidate is tested. At γ 2 "
        f"accepted / drafted = {share:.1f} means α = {two:.3f}.",
        figures=(
            Figure(label="accepted / drafted", value=share),
            Figure(label="α", value=alpha, form=".4f"),
            Figure(label="τ from 0.6", value=expected_tokens(share, gamma), form=".3f"),
        ),
        chart=tokens_chart(share, 1),
        run="estimates",
    )


def _bands() -> Claim:
    excellent = [best_gamma(0.7, c)[1] >= 2 for c in _COSTS]
    poor = [best_gamma(0.4, c)[1] < 1.5 for c in _COSTS]
    flip_at = holds_up_to(lambda c: best_gamma(0.7, c)[1] - 2, 0.001, 0.69)
    low_cheap, high_expensive = best_gamma(0.4, 0.01)[1], best_gamma(0.7, 0.3)[1]
    return Claim(
        id="acceptance-bands",
        source=GUIDE,
        quote="High acceptance rate (α ≥ 0.7): Signifies excellent speedup … Medium acceptance "
        "rate (α = 0.5–0.7): Indicates good speedup … Low acceptance rate (α < 0.5): Suggests poor "
        "speedup",
        verdict=verdict_for([*excellent, *poor]),
        finding=f"α alone does not determine the speedup; c matters as much. At the best γ, "
        f"α 0.40 with c 0.01 gives {low_cheap:.2f}×, α 0.70 with c 0.30 only "
        f"{high_expensive:.2f}×. With v = 1, drafting is faster exactly if α > c. The guide gives "
        "no numbers; here “excellent” means at least 2× and “poor” below 1.5×.",
        flip=f"α 0.70 doubles the speed only up to c = {flip_at:.3f}.",
        figures=(
            Figure(label="α 0.40, c 0.01", value=low_cheap, unit="×"),
            Figure(label="α 0.70, c 0.30", value=high_expensive, unit="×"),
            Figure(label="verdict changes at c", value=flip_at, form=".3f"),
        ),
        chart=speed_chart("Speedup where the verdict changes", alpha=0.7, c=flip_at),
        run="speed",
    )


def _draft_lengths() -> Claim:
    high = [7 <= best_gamma(alpha, c)[0] <= 10 for alpha in (0.7, 0.8, 0.9) for c in _COSTS]
    low = [3 <= best_gamma(alpha, c)[0] <= 5 for alpha in (0.3, 0.4, 0.5) for c in _COSTS]
    longest = holds_from(lambda c: best_gamma(0.8, c)[0] - 10.5, 0.001, 0.5)
    shortest = holds_up_to(lambda c: best_gamma(0.8, c)[0] - 6.5, 0.001, 0.5)
    low_best, high_best = best_gamma(0.5, 0.1)[0], best_gamma(0.9, 0.1)[0]
    return Claim(
        id="draft-lengths",
        source=GUIDE,
        quote="High α: Employ a larger γ (7–10 tokens) … Low α: Opt for a smaller γ (3–5 tokens)",
        verdict=verdict_for([*high, *low]),
        finding=f"The quote’s direction is right, but its numbers fit only one range of c. At c = "
        f"0.10 the "
        f"best γ is {high_best} for α 0.90, {low_best} for α 0.50 and "
        f"{best_gamma(0.3, 0.1)[0]} for α 0.30; at c = 0.30 it is {best_gamma(0.3, 0.3)[0]} (do "
        f"not draft) for α 0.30. The quote is right in {sum(high) + sum(low)} of the "
        f"{len(high) + len(low)} cases tested here.",
        flip=f"For α 0.80 the best γ is within 7–10 only from c = {longest:.3f} to "
        f"c = {shortest:.3f}.",
        figures=(
            Figure(label="best γ, α 0.90, c 0.10", value=high_best, form=".0f"),
            Figure(label="best γ, α 0.50, c 0.10", value=low_best, form=".0f"),
            Figure(label="verdict changes at c", value=shortest, form=".3f"),
        ),
        chart=speed_chart(
            "Speedup over γ where the verdict changes", alpha=0.8, c=shortest, gamma=7
        ),
        run="speed",
    )


def _acceptance_length() -> Claim:
    alpha, gamma = 0.6, 5
    emitted = expected_tokens(alpha, gamma)
    accepted = expected_accepted(alpha, gamma)
    gaps = [expected_tokens(each, gamma) - expected_accepted(each, gamma) for each in _ALPHAS]
    return Claim(
        id="acceptance-length",
        source=GUIDE,
        quote="Acceptance Length (τ) … This metric represents the average number of tokens "
        "actually accepted per round. A theoretical formula governs this",
        verdict=verdict_for([abs(emitted - accepted) < 0.01]),
        finding=f"The quote’s wording makes every number wrong by one. The usual formula includes "
        f"the extra token. At α 0.60 and γ 5, it gives {emitted:.3f} tokens emitted per round, of "
        f"which {accepted:.3f} were accepted.",
        flip=f"Nowhere. A round emits {max(gaps):.0f} token more than it accepts, at every α and "
        "γ.",
        figures=(
            Figure(label="emitted per round", value=emitted, form=".3f"),
            Figure(label="accepted per round", value=accepted, form=".3f"),
        ),
        chart=speed_chart("Tokens per round", "Tokens a round", alpha=alpha, gamma=gamma),
        run="estimates",
        latex=r"\tau = \frac{1-\alpha^{\gamma+1}}{1-\alpha}",
        symbols=(
            (r"\tau", "tokens emitted per round"),
            (r"\alpha", "acceptance rate"),
            (r"\gamma", "candidates per round"),
        ),
    )


def _six_tokens() -> Claim:
    half = holds_from(lambda alpha: alpha**5 - 0.5, 0.0, 1.0)
    return Claim(
        id="six-tokens",
        source=GUIDE,
        quote="… if K=5 and all drafts are accepted, you obtain six tokens from a single target "
        "forward pass.",
        verdict=verdict_for(expected_tokens(1.0, gamma) == gamma + 1 for gamma in range(1, 17)),
        finding=f"K = 5 accepted candidates and the bonus token are "
        f"{expected_tokens(1.0, 5):.0f} tokens. This is the maximum of a round, not the mean: at "
        f"α 0.80, {100 * 0.8**5:.0f} % of rounds reach it, and the mean is "
        f"{expected_tokens(0.8, 5):.2f}.",
        flip=f"At α = {half:.3f} half of all rounds emit six tokens.",
        figures=(
            Figure(label="at most", value=expected_tokens(1.0, 5), form=".0f"),
            Figure(label="mean at α 0.80", value=expected_tokens(0.8, 5)),
            Figure(label="α for six tokens in half of rounds", value=half, form=".3f"),
        ),
        chart=tokens_chart(half, 5),
        run="estimates",
    )


def _two_to_three_times() -> Claim:
    alpha, gamma = 0.6, 5
    costs = (0.0, *_COSTS)
    flip_at = holds_up_to(lambda c: speedup(alpha, gamma, c) - 2, 0.0, 1.0)
    twice = alpha_for_speedup(2.0, 0.1)
    return Claim(
        id="two-to-three-times",
        source=GUIDE,
        quote="… speculative decoding can achieve 2–3× speedups with robust acceptance rates "
        "(α ≥ 0.6, γ ≥ 5).",
        verdict=verdict_for(2 <= speedup(alpha, gamma, c) <= 3 for c in costs),
        finding=f"At α 0.60 and γ 5, the speedup is {speedup(alpha, gamma, 0.0):.3f}× with c 0, "
        f"{speedup(alpha, gamma, 0.05):.3f}× with c 0.05 and {speedup(alpha, gamma, 0.1):.3f}× "
        f"with c 0.10. With c 0.10, a speedup of 2× needs α ≥ {twice:.3f}, even at the best γ.",
        flip=f"With α 0.60 and γ 5, the speedup reaches 2× only up to c = {flip_at:.3f}.",
        figures=(
            Figure(label="c 0", value=speedup(alpha, gamma, 0.0), form=".3f", unit="×"),
            Figure(label="c 0.10", value=speedup(alpha, gamma, 0.1), form=".3f", unit="×"),
            Figure(label="verdict changes at c", value=flip_at, form=".3f"),
        ),
        chart=speed_chart("Speedup where the verdict changes", alpha=alpha, c=flip_at, gamma=gamma),
        run="speed",
    )


def _ten_times_fewer() -> Claim:
    ratio, cost = _GEMMA_TARGET / _GEMMA_DRAFT, _GEMMA_DRAFT / _GEMMA_TARGET
    even = break_even_alpha(cost, gamma=_GEMMA_GAMMA)
    twice = alpha_for_speedup(2.0, cost, gamma=_GEMMA_GAMMA)
    assert even is not None
    assert twice is not None
    even, twice = rounded_up(even), rounded_up(twice)
    return Claim(
        id="ten-times-fewer",
        source=GUIDE,
        quote="At least 10× fewer parameters than the target model. An overly large draft model "
        "will slow down token generation, negating the intended benefit.",
        verdict=verdict_for([best_gamma(0.6, 0.1)[1] > 1, best_gamma(0.6, cost)[1] <= 1]),
        finding=f"The speedup depends on c, the time of a draft step. The parameter count is only "
        f"a proxy. The guide’s own pair is Gemma 2B and 7B; the draft has only {ratio:.1f}× fewer "
        f"parameters. If step times scale with parameters, c = {cost:.3f}. The guide’s "
        f"γ {_GEMMA_GAMMA} then gives no speedup below α = {even:.3f}, and a speedup of 2× needs "
        f"α = {twice:.3f}. A smaller γ is faster: "
        f"{best_gamma(0.6, cost)[1]:.2f}× at α 0.60 with γ {best_gamma(0.6, cost)[0]}.",
        flip=f"With γ {_GEMMA_GAMMA}, the guide’s pair is faster than the target alone from "
        f"α = {even:.3f}.",
        figures=(
            Figure(label="c of Gemma 2B / 7B", value=cost, form=".3f"),
            Figure(label="faster from α", value=even, form=".3f"),
            Figure(label="2× from α", value=twice, form=".3f"),
        ),
        chart=speed_chart(
            "Speedup of the guide’s pair where the verdict changes",
            alpha=even,
            c=cost,
            gamma=_GEMMA_GAMMA,
        ),
        run="speed",
    )

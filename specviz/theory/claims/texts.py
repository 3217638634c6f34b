"""Claims about texts: temperature, tasks, hard stretches, the choice of a draft."""

from __future__ import annotations

import numpy as np

from specviz.theory.claims.claim import (
    GUIDE,
    OPTIMIZATION,
    Chart,
    Claim,
    Figure,
    crossing,
    holds_from,
    holds_up_to,
    speed_chart,
    verdict_for,
)
from specviz.theory.clustering import StickyText, tokens_per_round
from specviz.theory.papers import LEVIATHAN, SPEC_BENCH, LeviathanRow
from specviz.theory.speed import best_gamma, expected_tokens, generation_speed, speedup
from specviz.theory.temperature import overlap

# Two distributions over five tokens whose overlap is U-shaped in the temperature.
_DRAFT_LOGITS = np.log([0.4, 0.3, 0.15, 0.1, 0.05])
_TARGET_LOGITS = np.log([0.6, 0.15, 0.1, 0.1, 0.05])


def text_claims() -> tuple[Claim, ...]:
    return (_high_temperature(), _grounded_tasks(), _balance(), _small_n(), _one_probability())


def _overlap(temperature: float) -> float:
    return overlap(_DRAFT_LOGITS, _TARGET_LOGITS, temperature)


def _high_temperature() -> Claim:
    pairs = [(row, _at(row, 1)) for row in LEVIATHAN if row.temperature == 0]
    falls = [hot.alpha < cold.alpha for cold, hot in pairs]
    temperatures = np.linspace(0.05, 2.0, 196)
    lowest = float(
        temperatures[int(np.argmin([_overlap(float(temperature)) for temperature in temperatures]))]
    )
    flip_at = crossing(lambda temperature: _overlap(temperature) - _overlap(0.2), lowest, 3.0)
    return Claim(
        id="high-temperature",
        source=GUIDE,
        quote="Its efficacy diminishes with high-temperature sampling, common in creative writing "
        "applications.",
        verdict=verdict_for([*falls, _overlap(2.0) < _overlap(1.0)]),
        finding=f"From T = 0 to 1, α falls in all {sum(falls)} of Leviathan’s T5 pairs "
        f"({pairs[0][0].draft}: α {pairs[0][0].alpha:.2f} to {pairs[0][1].alpha:.2f}), but not "
        f"in general: as T grows, both models become uniform and α tends to 1. On a five-token "
        f"example α is {_overlap(0.2):.3f} at T 0.2, {_overlap(0.5):.3f} at 0.5, "
        f"{_overlap(1.0):.3f} at 1 and {_overlap(2.0):.3f} at 2.",
        flip=f"In the example α is lowest at T = {lowest:.2f}. At T = {flip_at:.2f} α is again "
        "as high as at T 0.2.",
        figures=(
            Figure(label="α at T 0.2", value=_overlap(0.2), form=".3f"),
            Figure(label=f"α at T {lowest:.2f}", value=_overlap(lowest), form=".3f"),
            Figure(label="α at T 2", value=_overlap(2.0), form=".3f"),
        ),
        chart=Chart(
            page="misleading",
            label="α over the temperature",
            settings=(
                ("misleading_tab", "Temperature"),
                ("misleading_temperature", round(lowest, 2)),
            ),
        ),
        run="temperature",
    )


def _at(row: LeviathanRow, temperature: float) -> LeviathanRow:
    """Return the row with this temperature and with the same task and draft as ``row``."""
    return next(
        each
        for each in LEVIATHAN
        if (each.task, each.draft, each.temperature) == (row.task, row.draft, temperature)
    )


def _grounded_tasks() -> Claim:
    small = [row for row in LEVIATHAN if row.draft == "T5-small" and row.temperature == 0]
    translated, summarised = (row.measured for row in small)
    model, lookup = SPEC_BENCH["draft model"], SPEC_BENCH["prompt lookup"]
    talk = model["conversation"]
    return Claim(
        id="grounded-tasks",
        source=GUIDE,
        quote="Tasks heavily reliant on input grounding, such as translation or summarization, "
        "exhibit greater speedups …",
        verdict=verdict_for(
            [
                model["translation"] > talk,
                model["summarisation"] > talk,
                lookup["summarisation"] > model["summarisation"],
            ]
        ),
        finding=f"The speedup of a task depends on the drafter. Spec-Bench reports for Vicuna-7B "
        f"with a draft "
        f"model: translation {model['translation']:.2f}×, summarisation "
        f"{model['summarisation']:.2f}×, conversation {talk:.2f}×. With prompt lookup: "
        f"summarisation {lookup['summarisation']:.2f}×, translation "
        f"{lookup['translation']:.2f}×. Leviathan’s drafts, fine-tuned on the task: translation "
        f"{translated}×, summarisation {summarised}×. All of these are reported, not computed "
        "here.",
        flip="With another drafter, not with another task. Run the embedded pair on "
        "several kinds of prompt to measure the embedded draft.",
        figures=(
            Figure(label="translation, draft model", value=model["translation"], unit="×"),
            Figure(label="conversation", value=talk, unit="×"),
            Figure(label="summary, prompt lookup", value=lookup["summarisation"], unit="×"),
        ),
        chart=speed_chart("What papers measured", "What papers measured"),
        run="kinds",
        basis="reported",
    )


def _balance() -> Claim:
    rows = [row for row in LEVIATHAN if row.task == "EnDe" and row.temperature == 0]
    speeds = {row.draft: speedup(row.alpha, row.gamma, row.c) for row in rows}
    best = max(rows, key=lambda row: speeds[row.draft])
    quickest, surest = min(rows, key=lambda row: row.c), max(rows, key=lambda row: row.alpha)
    flip_at = holds_up_to(lambda c: best_gamma(surest.alpha, c)[1] - speeds[best.draft], 0.001, 0.5)
    return Claim(
        id="balance",
        source=OPTIMIZATION,
        quote="The draft model should find a balance between model size (Ts) and acceptance "
        "probability (P) to get high speed ups",
        verdict=verdict_for([best is not quickest, best is not surest]),
        finding=f"For Leviathan’s three drafts for translation, the formula gives "
        f"{speeds[quickest.draft]:.3f}× with {quickest.draft} (α {quickest.alpha:.2f}, "
        f"c {quickest.c:.2f}), {speeds[best.draft]:.3f}× with {best.draft} (α {best.alpha:.2f}, "
        f"c {best.c:.2f}) and {speeds[surest.draft]:.3f}× with {surest.draft} "
        f"(α {surest.alpha:.2f}, c {surest.c:.2f}). "
        f"The fastest of these, {best.draft}, has neither the lowest c nor the highest α. But in "
        f"the paper’s measurements, {quickest.draft} ({quickest.measured}×) was faster than "
        f"{best.draft} ({best.measured}×).",
        flip=f"The draft with the highest α, {surest.draft}, would be at least as fast as "
        f"{best.draft} if its c were at most {flip_at:.3f}.",
        figures=tuple(
            Figure(label=row.draft, value=speeds[row.draft], form=".3f", unit="×") for row in rows
        ),
        chart=speed_chart("Speedup where the verdict changes", alpha=surest.alpha, c=flip_at),
    )


def _small_n() -> Claim:
    slow = [best_gamma(alpha, c)[0] <= 10 for alpha in (0.3, 0.5, 0.7, 0.8) for c in (0.1, 0.3)]
    fast = best_gamma(0.95, 0.01)[0] > 10
    flip_at = holds_up_to(lambda c: best_gamma(0.9, c)[0] - 10.5, 0.001, 0.5)
    hidden = max(generation_speed(0.3, n, 0.5, 1.0) for n in range(1, 11))
    return Claim(
        id="small-n",
        source=OPTIMIZATION,
        quote="Optimal number of speculated tokens (N) stays small unless your draft model have "
        "both very high acceptance rate and very fast generation",
        verdict=verdict_for([*slow, fast]),
        finding=f"The best γ (N in the quote) is {best_gamma(0.7, 0.1)[0]} for α 0.70 and c 0.10, "
        f"{best_gamma(0.9, 0.1)[0]} for α 0.90 and c 0.10, and {best_gamma(0.95, 0.01)[0]} for "
        f"α 0.95 and c 0.01. The project’s plot begins at N = 1, although the best N can be 0: for "
        f"α 0.30 and c 0.50 the plot’s best N gives {hidden:.4f}×, slower than not drafting.",
        flip=f"At α 0.90 the best γ exceeds 10 for c up to {flip_at:.3f}.",
        figures=(
            Figure(label="α 0.70, c 0.10", value=best_gamma(0.7, 0.1)[0], form=".0f"),
            Figure(label="α 0.95, c 0.01", value=best_gamma(0.95, 0.01)[0], form=".0f"),
            Figure(label="best N ≥ 1 at α 0.30, c 0.50", value=hidden, form=".4f", unit="×"),
        ),
        chart=speed_chart("Speedup over γ where the verdict changes", alpha=0.9, c=flip_at),
        run="speed",
    )


def _one_probability() -> Claim:
    gamma = 5
    sticky = _sticky(0.8)
    formula = expected_tokens(sticky.mean_alpha, gamma)
    exact = tokens_per_round(sticky, gamma)
    mixed = tokens_per_round(_sticky(0.0), gamma)
    flip_at = holds_from(
        lambda each: tokens_per_round(_sticky(each), gamma) - 0.95 * formula, 0, 0.99, places=2
    )
    return Claim(
        id="one-probability",
        source=OPTIMIZATION,
        quote="… the expected number of additional tokens that can be successfully speculated when "
        "attempting to speculate N tokens ahead, given an overall acceptance probability P.",
        verdict=verdict_for([abs(mixed - formula) < 1e-9, abs(exact - formula) < 0.01 * formula]),
        finding=f"True if every candidate is accepted independently with the same probability. In "
        f"real text easy and hard stretches alternate: with the same mean α of "
        f"{sticky.mean_alpha:.2f} and a correlation of 0.8 between neighbouring tokens, a round "
        f"with γ 5 emits {exact:.4f} tokens on average; the formula gives {formula:.4f}.",
        flip=f"From a correlation of {flip_at:.2f} on, the formula is at least 5 % too high "
        "(acceptance probabilities 0.95 and 0.45, 60 % easy tokens).",
        figures=(
            Figure(label="formula", value=formula, form=".4f"),
            Figure(label="exact, correlated", value=exact, form=".4f"),
            Figure(label="correlation for 5 % error", value=flip_at),
        ),
        chart=Chart(
            page="misleading",
            label="Tokens per round at each correlation",
            settings=(
                ("misleading_tab", "Clusters"),
                ("misleading_stickiness", flip_at),
                ("misleading_gamma", gamma),
            ),
        ),
        run="estimates",
    )


def _sticky(stickiness: float) -> StickyText:
    return StickyText(easy=0.95, hard=0.45, easy_share=0.6, stickiness=stickiness)

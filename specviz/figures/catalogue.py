"""The catalogue of figures: the name, formula and meaning of each.

Terminal, pages, replay, tables, charts and docs use the catalogue. To add a figure, add an entry to
``CATALOGUE``. Its id is the name of the value in ``Metrics`` and the key in the JSON of a run; its
``quantity`` sets the digits. Then add the id where the figure is shown (``cli.figures``,
``player.summary``, ``comparison.table``, ...) and add a row to the table in ``docs/figures.md``. A
test compares this table with the catalogue.
"""

from __future__ import annotations

from specviz.figures.arithmetic import known_sum
from specviz.figures.figure import TIMES_THE_TARGET, Figure
from specviz.figures.formulas import (
    accounted_note,
    beside_break_even,
    cut_left_out,
    draft_counts,
    first_token,
    forecast_numbers,
    forecast_origin,
    give_or_take,
    lossy_odds,
    put_in,
    quotient,
    rate_beside_break_even,
    round_costs,
    step_cost_caveat,
    sum_of,
    timed_interval,
    timed_pairs,
)
from specviz.figures.memory_figures import MEMORY
from specviz.figures.symbols import SYMBOLS
from specviz.record.numbers import (
    COST,
    MILLISECONDS,
    MILLISECONDS_PER_TOKEN,
    PERCENT,
    PROBABILITY,
    RATE,
    RATIO,
    SIZE,
    STEPS,
    TOKENS,
)

__all__ = ["CATALOGUE", "TIMES_THE_TARGET", "Figure", "titled"]


_ACCEPTANCE = (
    Figure(
        id="alpha_observed",
        label="α observed",
        quantity=PROBABILITY,
        better="higher",
        formula=SYMBOLS["alpha"].formula,
        remark="Candidates after a rejected one do not count, because they were never tested",
        numbers=lambda m: quotient(m.num_accepted, m.num_tested),
        note=lambda m: f"{m.num_accepted} of {m.num_tested} tested candidates were accepted",
    ),
    Figure(
        id="alpha_expected",
        label="α expected",
        quantity=PROBABILITY,
        better="higher",
        formula="mean of Σ min(draft, target) over the tested positions",
        remark="Σ min(draft, target) is the acceptance probability of a candidate, averaged over "
        "the tokens that the draft can sample",
        numbers=lambda m: quotient(m.expected_accepted, m.num_tested),
        caveat=lossy_odds,
        note=lambda _: "before the draw",
    ),
    Figure(
        id="draft_acceptance_rate",
        label="draft acceptance rate",
        quantity=PROBABILITY,
        better="higher",
        formula="accepted / drafted",
        remark="Serving engines call this rate the acceptance rate. It is not α, because it also "
        "counts candidates that were never tested",
        numbers=lambda m: quotient(m.num_accepted, m.num_drafted),
        note=draft_counts,
    ),
    Figure(
        id="outside_share",
        label="out of the head's vocabulary",
        quantity=PERCENT,
        better="lower",
        formula="rounds whose extra token the head cannot propose / rounds with an extra token",
        remark="The head proposes only part of the target's vocabulary",
        numbers=lambda m: quotient(m.num_outside, m.num_extras),
        note=lambda m: f"in {m.num_outside} of {m.num_extras} rounds",
    ),
    Figure(
        id="tau",
        label="τ, tokens per round",
        short="τ",
        quantity=TOKENS,
        better="higher",
        formula=SYMBOLS["tau"].formula,
        remark="The recovered or bonus token is included",
        numbers=lambda m: quotient(m.num_tokens, m.num_whole_rounds),
        caveat=cut_left_out,
        note=lambda m: f"of {m.trace.config.depth + 1} possible",
    ),
)
_SPEEDUPS = (
    Figure(
        id="speedup_observed",
        label="speedup, observed",
        short="speedup",
        quantity=RATIO,
        better="higher",
        formula="time of the target alone along the same tokens / time of the speculative run",
        remark="Prefill is left out",
        numbers=lambda m: quotient(m.target_seconds, m.seconds, "s"),
        note=timed_interval,
    ),
    Figure(
        id="speedup_interval",
        label="speedup, interval",
        quantity=RATIO,
        formula="95 % confidence interval of the observed speedup",
        remark="The interval covers the error of the timing alone, on this text and machine. It is "
        "Student's t interval over slices of the text; each slice is timed in the order target "
        "alone, run, run, target alone",
        caveat=timed_pairs,
        note=timed_pairs,
    ),
    Figure(
        id="speedup_forecast",
        label="speedup, forecast",
        quantity=RATIO,
        better="higher",
        formula="τ / (γc + v + o)",
        remark="The forecast is made before the run, from step costs and from τ on other texts of "
        "the prompt's kind at the run's temperature",
        numbers=forecast_numbers,
        note=forecast_origin,
    ),
    Figure(
        id="speedup_accounted",
        label="speedup, accounted",
        quantity=RATIO,
        better="higher",
        formula="τ / (γc + v + o)",
        remark="The step costs of both models predict this speedup at the run's τ",
        numbers=lambda m: put_in({"τ": m.tau, **round_costs(m)}),
        note=accounted_note,
    ),
    Figure(
        id="speedup_ideal",
        label="speedup, ideal",
        quantity=RATIO,
        better="higher",
        formula="(1 − α^(γ+1)) / ((1 − α)(γc + 1))",
        remark="The textbook formula assumes v = 1. If the measured v is below 1, the observed "
        "speedup can be higher than the ideal one",
        numbers=lambda m: put_in({"α": m.alpha, "γ": m.gamma, "c": m.c}),
        note=lambda _: "if a verification took one target step",
    ),
    Figure(
        id="speedup_end_to_end",
        label="speedup, end to end",
        quantity=RATIO,
        better="higher",
        formula="(prefill + decoding time of the target alone) / (prefill of both models + "
        "decoding time of the run)",
        numbers=lambda m: quotient(
            known_sum(m.target_prefill, m.target_seconds),
            known_sum(m.prefill, m.seconds),
            "s",
        ),
        note=lambda _: "both prefills included",
    ),
    Figure(
        id="speedup_limit",
        label="speedup, limit",
        quantity=RATIO,
        formula="(γ + 1) / (γc + v + o)",
        remark="The limit assumes that every candidate is accepted, so no run at these step costs "
        "is faster",
        numbers=lambda m: put_in(round_costs(m)),
        note=lambda _: "with every candidate accepted",
    ),
    Figure(
        id="break_even_alpha",
        label="α, break-even",
        quantity=PROBABILITY,
        formula="α at which 1 + α + … + α^γ = γc + v + o",
        remark="The left side is the expected tokens of a round, the right side its cost in target "
        "steps. At a lower α, this pair is slower than the target alone on this machine",
        numbers=lambda m: put_in(round_costs(m)),
        note=beside_break_even,
    ),
    Figure(
        id="break_even_rate",
        label="accepted, break-even",
        quantity=PERCENT,
        formula="(γc + v + o − 1) / γ",
        remark="If the draft acceptance rate (accepted / drafted, as serving engines count) is "
        "below this value, the run is slower than the target alone",
        numbers=lambda m: put_in(round_costs(m)),
        note=rate_beside_break_even,
    ),
)
_COSTS = (
    Figure(
        id="c",
        label="c, a draft step",
        short="c",
        quantity=COST,
        better="lower",
        formula=SYMBOLS["c"].formula,
        remark="Both times come from the step costs",
        numbers=lambda m: quotient(m.steps.draft, m.steps.target, "ms"),
        caveat=step_cost_caveat,
        note=lambda m: f"in target steps{give_or_take(m.c_error)}",
    ),
    Figure(
        id="v",
        label="v, a verification",
        short="v",
        quantity=STEPS,
        better="lower",
        formula=SYMBOLS["v"].formula,
        remark="Both times come from the step costs. v is below 1 if a pass over several tokens "
        "uses faster kernels than a pass over one token",
        numbers=lambda m: quotient(m.steps.verification, m.steps.target, "ms"),
        caveat=step_cost_caveat,
        note=lambda m: (
            ""
            if m.gamma is None
            else f"for {m.gamma + 1} tokens, in target steps{give_or_take(m.v_error)}"
        ),
    ),
)
_TIMES = (
    Figure(
        id="tokens_per_second",
        label="tokens/s",
        quantity=RATE,
        better="higher",
        formula="tokens of whole rounds / time of these rounds",
        remark="Prefill and recording are left out",
        numbers=lambda m: quotient(m.num_tokens, m.seconds, "s"),
    ),
    Figure(
        id="baseline_tokens_per_second",
        label="tokens/s, target alone",
        quantity=RATE,
        better="higher",
        formula="tokens of whole rounds / time of plain decoding along these tokens",
        remark="The text is timed in slices: the target alone, the run again, the target alone",
        numbers=lambda m: quotient(m.num_tokens, m.target_seconds, "s"),
    ),
    Figure(
        id="ttft_ms",
        label="time to first token",
        short="first token",
        quantity=MILLISECONDS,
        better="lower",
        formula="prefill of both models + the first round",
        numbers=lambda m: sum_of(m.prefill, m.first_round),
        note=first_token,
    ),
    Figure(
        id="wasted_share",
        label="drafting wasted",
        quantity=PERCENT,
        better="lower",
        formula="time spent on drafts that were not accepted / decoding time",
        remark="The wasted time of a round is its drafting time × (1 − accepted / drafted)",
        numbers=lambda m: quotient(m.wasted_seconds, m.decode_seconds or None, "s"),
        note=lambda _: "of the decoding time",
    ),
    Figure(
        id="ms_a_token",
        label="time per token",
        quantity=MILLISECONDS_PER_TOKEN,
        better="lower",
        formula="time that the whole rounds spend on one part (drafting, verifying, …) / tokens "
        "of these rounds",
    ),
    Figure(
        id="memory_bytes",
        label="memory of the weights",
        short="memory",
        quantity=SIZE,
        better="lower",
        formula="bytes of the weights that a run needs",
        remark="On a GPU, the peak of the run's working memory is added. Copies of the weights, "
        "which small models get on a CPU, are not counted",
    ),
)
_INTERVALS = (
    Figure(
        id="alpha_interval_prompt",
        label="α, this prompt",
        quantity=PROBABILITY,
        formula="95 % interval of α on this prompt, by a block bootstrap over the rounds",
        remark="The bootstrap needs at least ten rounds",
        note=lambda _: "95 % interval",
    ),
    Figure(
        id="alpha_interval_coins",
        label="α, sampling noise",
        quantity=PROBABILITY,
        formula="95 % range of the observed α from sampling noise alone, given the acceptance "
        "probabilities at the tested positions",
        remark="The range is empty at temperature 0, where verdicts do not depend on draws",
        note=lambda _: "95 % interval",
    ),
)

_ALL = (*_ACCEPTANCE, *_INTERVALS, *_SPEEDUPS, *_COSTS, *MEMORY, *_TIMES)
CATALOGUE = {each.id: each for each in _ALL}


def titled(label: str) -> str:
    """Return the label with a capital first letter; a single letter, such as c, is not changed."""
    first, _, rest = label.partition(" ")
    return f"{first.capitalize() if first[1:2].isalpha() else first} {rest}".rstrip()

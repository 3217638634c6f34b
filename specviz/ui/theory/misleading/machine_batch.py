"""The tab "This machine's batch": measured speedups, and forecasts by batch size and context."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import streamlit as st

from specviz import ASSETS
from specviz.errors import SpecvizError
from specviz.figures.batch_forecast import (
    FORECAST_LABEL,
    MapPoint,
    batch_map,
    break_even_batch,
)
from specviz.figures.load_figures import load_figures
from specviz.figures.symbols import names_in_formula
from specviz.load.stored import stored_sweeps
from specviz.measure.batch_costs import newest_batch_forecast
from specviz.record.batch_costs import BatchForecast, BatchPoint, ExpertReads
from specviz.record.bodies import NO_BODY
from specviz.record.load_run import LoadSweep
from specviz.record.numbers import PERCENT, PROBABILITY, RATIO, STEPS, TOKENS
from specviz.store.dataclass_json import from_json
from specviz.ui.docs.chapters import chapter_link
from specviz.ui.theory.misleading.batch_charts import (
    EnginePoint,
    experts_over_rows,
    speedup_map,
    speedup_over_batch,
    verification_cost,
)
from specviz.ui.widgets.page_parts import show_chart, show_formula
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.symbols import show_sentence

RECORDED = ASSETS / "recorded_batch.json.gz"
_COMMAND = "python -m specviz bench --batch"


def show_machine_batch() -> None:
    own = newest_batch_forecast()
    found = own or _recorded()
    st.caption(
        f"{'' if own else '**Recorded example** from another machine. '}{_about(found)} "
        f"`{_COMMAND}` measures this machine. {chapter_link('load')}"
    )
    rows = batch_map(found)
    show_sentence(f"{measured_sentence(found.points)} {map_sentence(rows, found.gamma)}")
    show_chart(
        speedup_over_batch(found.points, _engine_points()),
        f"γ {found.gamma}, contexts of about {found.points[0].context:.0f} tokens. "
        f"**{_label()}**. Crosses are load sweeps of serving engines. Each engine has its own "
        "scheduler and pair.",
        "predicted",
        "measured",
        key="misleading_machine_speed",
        alt="Measured and forecast speedup at each number of sequences in the batch.",
    )
    show_chart(
        speedup_map(rows, found.gamma),
        f"A cell shows the best γ (tried: {_gammas(found)}) and its speedup. “plain” means that "
        "the target alone is fastest; a dash means that the batch does not fit in memory. The line "
        f"is the break-even of γ {found.gamma}. **{_label()}**.",
        "predicted",
        key="misleading_machine_map",
        alt="For each batch size and context: the best γ, and the forecast speedup at this γ.",
    )
    show_chart(
        verification_cost(found.costs, found.gamma),
        f"Cost of verifying {found.gamma + 1} tokens of every sequence. The unit is a step of the "
        "target alone with the same number of sequences.",
        "measured",
        key="misleading_machine_v",
        alt="Cost of a verification at each number of sequences, with a line per context.",
    )
    _show_forecast_formula(found)
    if found.experts is not None:
        _show_experts(found.experts, found.gamma)


def measured_sentence(points: Sequence[BatchPoint]) -> str:
    """State the measured speedups of the first and last point, and the largest forecast error."""
    first, last = points[0], points[-1]
    worst = max(abs(each.error) for each in points)
    texts = (
        "Every text is the same as in a single run of its prompt."
        if all(each.same_texts for each in points)
        else "**Some texts differ from the single runs of their prompts.**"
    )
    return (
        f"With {_sequences(first.batch)}, speculation is **{RATIO.bare(first.speedup)}** times as "
        f"fast as the target alone; with {_sequences(last.batch)}, "
        f"**{RATIO.bare(last.speedup)}** times. The forecast is within {PERCENT.shown(worst)} of "
        f"these measurements. {texts}"
    )


def map_sentence(rows: Sequence[tuple[MapPoint, ...]], gamma: int) -> str:
    """State the smallest batch size from which speculation is slower than the target alone.

    The sentence states this size for the shortest and for the longest context.
    """
    parts = [
        f"at {row[0].context:,} tokens "
        + (f"from {batch} sequences on" if (batch := break_even_batch(row)) else "at no batch size")
        for row in dict.fromkeys((rows[0], rows[-1]))
    ]
    return f"By the forecast, γ {gamma} is slower than the target alone {'; '.join(parts)}."


def _sequences(count: int) -> str:
    return "one sequence" if count == 1 else f"{count} sequences"


def _label() -> str:
    return FORECAST_LABEL[0].upper() + FORECAST_LABEL[1:]


def _gammas(found: BatchForecast) -> str:
    return ", ".join(str(each) for each in found.costs.gammas)


def _about(found: BatchForecast) -> str:
    size = "" if found.target == NO_BODY else f" with a target of {as_text(found.target)}"
    alpha = found.acceptance.alpha
    machine = f"{as_text(found.machine)}, {as_text(found.dtype)}"
    return (
        f"The pair {as_text(found.pair)}{size} on {machine}, "
        f"{found.threads} thread{'s' * (found.threads != 1)}, temperature {found.temperature:g}"
        + ("." if alpha is None else f", acceptance rate α {PROBABILITY.bare(alpha)}.")
    )


def _show_forecast_formula(found: BatchForecast) -> None:
    show_formula(
        r"S(B, \ell) = \frac{\tau \; t_B(1)}{d_B(\gamma) + t_B(\gamma + 1) + B\,o},\qquad "
        r"v = \frac{t_B(\gamma + 1)}{t_B(1)}",
        {
            "S": "speedup",
            "B": "sequences",
            r"\ell": "context, on which all times depend",
            **names_in_formula("tau"),
            "t_B(n)": "time of the target's pass over n tokens of each sequence",
            "d_B": "time of the draft's steps",
            **names_in_formula("gamma"),
            "o": "time of a round outside both models, per sequence",
            **names_in_formula("v"),
        },
        f"{_label()}. The times of both models are measured for B sequences. τ is "
        f"{TOKENS.bare(found.acceptance.tokens(found.gamma))} at γ {found.gamma}, measured in "
        "single runs, because acceptance does not depend on the batch.",
    )


def _show_experts(reads: ExpertReads, gamma: int) -> None:
    near = min(reads.points, key=lambda each: abs(each.rows - gamma - 1))
    one = reads.points[0]
    show_sentence(
        "**Mixture of experts.** With such a target, speculation can be slower even for one "
        f"sequence: a pass over {near.rows:d} rows reads {TOKENS.bare(near.experts)} of "
        f"{reads.experts:d} experts per layer, but a pass over one row reads only "
        f"{TOKENS.bare(one.experts)}. The pass over {near.rows:d} rows takes "
        f"{STEPS.bare(near.seconds)} times as long as the pass over one row. So even if drafting "
        f"were free, a round would need more than {STEPS.bare(near.seconds)} tokens to be faster "
        "than the target alone. In runs of specviz with this target, the draft was the same model "
        f"with one expert per token. With γ {reads.run.gamma}, a round gave "
        f"{TOKENS.bare(reads.run.tokens)} tokens, and decoding was "
        f"{RATIO.bare(reads.run.speedup)} times as fast as with the target alone. A dense model "
        "reads the same weights for any number of rows."
    )
    show_chart(
        experts_over_rows(reads),
        f"A small random Mixtral-shaped model; experts are "
        f"{PERCENT.shown(reads.expert_share)} of its weights. Experts per token: "
        f"{reads.per_token}.",
        "measured",
        key="misleading_experts",
        alt="Experts that a pass reads, and the time of the pass, at each number of rows.",
    )
    show_formula(
        r"\mathrm{E}[\text{experts}] = E\left(1 - (1 - k/E)^n\right)",
        {"E": "experts of a layer", "k": "experts per token", "n": "rows of the pass"},
        "If all rows choose independently and uniformly.",
    )


def _engine_points() -> list[EnginePoint]:
    found = list[EnginePoint]()
    for sweep in (*stored_sweeps(), *_recorded_sweeps()):
        found += _points_of(sweep)
    return found


def _points_of(sweep: LoadSweep) -> list[EnginePoint]:
    if sweep.settings.mode != "closed":
        return []
    return [
        EnginePoint(
            engine=f"{sweep.lanes[each.lane].info.engine}, {sweep.lanes[each.lane].label}",
            users=each.level,
            speedup=each.speedup.value,
        )
        for each in load_figures(sweep).levels
        if each.speedup is not None
    ]


@st.cache_resource(show_spinner=False)
def _recorded_sweeps() -> tuple[LoadSweep, ...]:
    from specviz.load.stored import sweep_from_json

    path = ASSETS / "recorded_load.json.gz"
    try:
        return (sweep_from_json(gzip.decompress(path.read_bytes()).decode(), path.name),)
    except (OSError, SpecvizError):
        return ()


@st.cache_resource(show_spinner=False)
def _recorded() -> BatchForecast:
    return from_json(gzip.decompress(RECORDED.read_bytes()).decode(), BatchForecast)

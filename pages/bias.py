"""Bias or speed: what a rule gains by accepting too much, and what it costs."""

import streamlit as st

from specviz.errors import TheoryError
from specviz.theory import blocks, multidraft, tradeoff
from specviz.theory.examples import EXAMPLES, Example
from specviz.ui.session.history import session_history
from specviz.ui.shell import require_shell
from specviz.ui.theory.bias.bars import show_bars
from specviz.ui.theory.bias.charts import (
    areas_chart,
    blocks_chart,
    distribution_chart,
    drafts_chart,
    pareto_plane,
)
from specviz.ui.theory.bias.measured_blocks import show_measured_blocks
from specviz.ui.theory.bias.sections import (
    bars_in_words,
    biased_runs,
    blocks_in_words,
    dots_in_words,
    drafts_in_words,
    plane_in_words,
    run_dots,
    run_in_words,
    show_bias_distributions,
    show_block_distribution,
    show_drafts_distribution,
    state_in_words,
)
from specviz.ui.theory.bias.simulation import Settings, Simulation, run_simulation
from specviz.ui.widgets.page_parts import (
    show_chart,
    show_heading,
    show_reference,
    slider,
    whole_slider,
)
from specviz.ui.widgets.plain_text import show_error

require_shell()

SECTIONS = ("What comes out", "Whole blocks", "Several drafts", "Your runs")


def show_position(example: Example) -> Settings:
    """The bars and the plane, side by side; returns what they are set to."""
    with st.sidebar:
        epsilon = slider(
            "Over-acceptance ε", 0.0, 0.6, 0.05, key="bias_epsilon", step=0.01,
            hint="Accept with min(1, (target + ε) / draft). At 0 it accepts as the lossless rule.",
        )  # fmt: skip
        lenience = slider(
            "Lenience", 0.05, 1.0, 0.8, key="bias_lenience", step=0.05,
            hint="Accept with min(1, target / (lenience · draft)). At 1 it is the lossless rule.",
        )  # fmt: skip
        threshold = slider(
            "Threshold on the target", 0.0, 1.0, 0.12, key="bias_t", step=0.01,
            hint="Accept every token that has at least this probability by the target, no other.",
        )  # fmt: skip
        paused = st.toggle("Pause the simulation", key="bias_pause", bind="query-params")
    left, right = st.columns([6, 7], gap="medium")
    with left:
        said = st.container()
        draft, target = show_bars(example.draft, example.target, example.labels, key="bias_bars")
        st.caption(f"Drag a bar by its top, or use the arrow keys. {example.source}")
    settings = Settings(
        draft=draft, target=target, epsilon=epsilon, lenience=lenience, threshold=threshold
    )
    said.markdown(bars_in_words(settings, example.labels))
    with right:
        st.markdown(plane_in_words(settings))
        run_simulation(settings, paused, lambda simulation: draw_plane(simulation, paused))
    return settings


def draw_plane(simulation: Simulation, paused: bool) -> None:
    settings = simulation.settings
    marks = [each.exact_point() for each in settings.policies()]
    plane = pareto_plane(settings.distance, marks, simulation.simulated(), height=370)
    note = state_in_words(simulation, paused)
    show_chart(plane, note, "exact", "simulated", key="bias_plane")


def show_output(settings: Settings, example: Example) -> None:
    areas = tradeoff.areas(settings.draft, settings.target, settings.over_accept())
    (opt, uno, *_), (left, right) = settings.policies(), st.columns(2, gap="medium")
    with left:
        note = "What is rejected and what is accepted in excess add up to the models' distance."
        show_chart(areas_chart(example.labels, areas), note, "exact", key="bias_areas")
    with right:
        laws = {opt.name: opt.emitted, uno.name: uno.emitted}
        note = "What is emitted, beside the target. OPT draws a recovered token from the leftover, "
        note += "UNO from the target."
        show_chart(
            distribution_chart(example.labels, settings.target, laws),
            note,
            "exact",
            key="bias_laws",
        )


def show_blocks(settings: Settings) -> None:
    left, right = st.columns([5, 8], gap="medium")
    with left:
        gamma = whole_slider("γ up to", 1, 10, 6, key="bias_gamma")
    curves = blocks.accepted_curves(settings.draft, settings.target, gamma)
    left.markdown(blocks_in_words(curves))
    with right:
        note = "Every position of the block has the two distributions above."
        show_chart(blocks_chart(curves), note, "exact", key="bias_blocks")
    show_block_distribution()
    show_measured_blocks()


def show_drafts(settings: Settings) -> None:
    left, right = st.columns([5, 8], gap="medium")
    with left:
        most = whole_slider("Drafts up to", 1, 8, 6, key="bias_drafts")
    curves = multidraft.acceptance_curves(settings.draft, settings.target, most)
    left.markdown(drafts_in_words(curves))
    with right:
        note = "All drafts are drawn from the draft's distribution above."
        show_chart(drafts_chart(curves), note, "exact", key="bias_zoo")
    show_drafts_distribution()


def show_runs() -> None:
    runs = biased_runs(session_history())
    if not runs:
        st.info(
            "No run of this session used the over-acceptance rule. Choose it on Watch, under More "
            "settings, and run; the tokens of that run then become dots here."
        )
        return
    trace, (left, right) = runs[-1].trace, st.columns([5, 8], gap="medium")
    left.markdown(run_in_words(trace))
    plane = pareto_plane(1.0, dots=run_dots(trace), unit=", as a share of the token's own TV")
    with right:
        show_chart(plane, dots_in_words(trace), "measured", "exact", key="bias_run")


show_heading(
    "Bias or speed",
    "A rule that rejects less lets the text drift from the target; how far is computed exactly.",
)
with st.sidebar:
    names = {each.name: each for each in EXAMPLES}
    chosen = st.selectbox("The bars start from", names, key="bias_example", bind="query-params")
example = names[chosen]
settings = show_position(example)
section = st.segmented_control(
    "More of the same pair",
    SECTIONS,
    default=SECTIONS[0],
    key="bias_section",
    bind="query-params",
    label_visibility="collapsed",
)
try:
    if section == "Whole blocks":
        show_blocks(settings)
    elif section == "Several drafts":
        show_drafts(settings)
    elif section == "Your runs":
        show_runs()
    else:
        show_output(settings, example)
except TheoryError as problem:
    show_error(problem)
st.subheader("The laws", anchor=False)
show_bias_distributions()
show_reference()

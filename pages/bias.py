"""Bias or speed: the speed and the bias of rules that accept more than the lossless rule."""

import streamlit as st

from specviz.errors import TheoryError
from specviz.theory import blocks, multidraft, tradeoff
from specviz.theory.examples import EXAMPLES, Example
from specviz.ui.session.history import session_history
from specviz.ui.shell import require_shell
from specviz.ui.theory.bias.charts import (
    areas_chart,
    blocks_chart,
    distribution_chart,
    drafts_chart,
    pareto_plane,
)
from specviz.ui.theory.bias.measured_blocks import show_measured_blocks
from specviz.ui.theory.bias.quality import show_quality, take_linked_experiment
from specviz.ui.theory.bias.sections import (
    bars_sentence,
    biased_runs,
    blocks_sentence,
    dots_sentence,
    drafts_sentence,
    plane_sentence,
    run_dots,
    run_sentence,
    show_bias_formulas,
    show_block_formula,
    show_drafts_formula,
    simulation_sentence,
)
from specviz.ui.theory.bias.simulation import Settings, Simulation, run_simulation
from specviz.ui.widgets.distribution_bars import show_bars
from specviz.ui.widgets.page_parts import (
    show_chart,
    show_heading,
    show_letters,
    show_reference,
    slider,
    whole_slider,
)
from specviz.ui.widgets.plain_text import show_error
from specviz.ui.widgets.symbols import show_sentence

require_shell()

SECTIONS = ("What comes out", "Whole blocks", "Several drafts", "Your runs", "Quality")


def show_position(example: Example) -> Settings:
    """Draw the draft and target bars beside the Pareto plane, and return the chosen settings."""
    with st.sidebar:
        epsilon = slider(
            "Over-acceptance ε", 0.0, 0.6, 0.05, key="bias_epsilon", step=0.01,
            hint="Accept a token with probability min(1, (target + ε) / draft). With ε 0, this is "
            "the lossless rule.",
        )  # fmt: skip
        lenience = slider(
            "Lenience", 0.05, 1.0, 0.8, key="bias_lenience", step=0.05,
            hint="Accept a token with probability min(1, target / (lenience · draft)). With "
            "lenience 1, this is the lossless rule.",
        )  # fmt: skip
        threshold = slider(
            "Threshold on the target", 0.0, 1.0, 0.12, key="bias_t", step=0.01,
            hint="Accept a token if its probability under the target is at least this value.",
        )  # fmt: skip
        paused = st.toggle("Pause the simulation", key="bias_pause", bind="query-params")
    left, right = st.columns([6, 7], gap="medium")
    with left:
        sentence = st.container()
        draft, target = show_bars(example.draft, example.target, example.labels, key="bias_bars")
        st.caption(f"Drag the top of a bar, or use the arrow keys. {example.source}")
    settings = Settings(
        draft=draft, target=target, epsilon=epsilon, lenience=lenience, threshold=threshold
    )
    with sentence:
        show_sentence(bars_sentence(settings, example.labels))
    with right:
        show_sentence(plane_sentence(settings))
        run_simulation(settings, paused, lambda simulation: draw_plane(simulation, paused))
    return settings


def draw_plane(simulation: Simulation, paused: bool) -> None:
    settings = simulation.settings
    marks = [each.exact_point() for each in settings.policies()]
    plane = pareto_plane(settings.distance, marks, simulation.simulated(), height=370)
    note = simulation_sentence(simulation, paused)
    show_chart(plane, note, "exact", "simulated", key="bias_plane")


def show_output(settings: Settings, example: Example) -> None:
    areas = tradeoff.areas(settings.draft, settings.target, settings.over_accept())
    (opt, uno, *_), (left, right) = settings.policies(), st.columns(2, gap="medium")
    with left:
        note = (
            "Summed over all tokens, the areas “rejected” and “accepted in excess” equal the "
            "distance (TV) between draft and target."
        )
        show_chart(areas_chart(example.labels, areas), note, "exact", key="bias_areas")
    with right:
        emitted = {opt.name: opt.emitted, uno.name: uno.emitted}
        note = "The bars compare the emitted tokens' distribution with the target's distribution. "
        note += "OPT draws recovered tokens from the residual; UNO draws them from the target."
        show_chart(
            distribution_chart(example.labels, settings.target, emitted),
            note,
            "exact",
            key="bias_laws",
        )


def show_blocks(settings: Settings) -> None:
    left, right = st.columns([5, 8], gap="medium")
    with left:
        gamma = whole_slider("γ up to", 1, 10, 6, key="bias_gamma")
    curves = blocks.accepted_curves(settings.draft, settings.target, gamma)
    with left:
        show_sentence(blocks_sentence(curves))
    with right:
        note = "At each position of the block, draft and target have the distributions above."
        show_chart(blocks_chart(curves), note, "exact", key="bias_blocks")
    show_block_formula()
    show_measured_blocks()


def show_drafts(settings: Settings) -> None:
    left, right = st.columns([5, 8], gap="medium")
    with left:
        most = whole_slider("Drafts up to", 1, 8, 6, key="bias_drafts")
    curves = multidraft.acceptance_curves(settings.draft, settings.target, most)
    left.markdown(drafts_sentence(curves))
    with right:
        note = "All drafts are drawn from the draft distribution above."
        show_chart(drafts_chart(curves), note, "exact", key="bias_zoo")
    show_drafts_formula()


def show_runs() -> None:
    runs = biased_runs(session_history())
    if not runs:
        st.info(
            "No run of this session used the over-acceptance rule. Choose this rule on the page "
            "*Watch* under *More settings*, and start a run. The run's tokens then appear here as "
            "dots."
        )
        return
    trace, (left, right) = runs[-1].trace, st.columns([5, 8], gap="medium")
    left.markdown(run_sentence(trace))
    plane = pareto_plane(1.0, dots=run_dots(trace), unit=" ÷ TV of draft and target")
    with right:
        show_chart(plane, dots_sentence(trace), "measured", "exact", key="bias_run")


show_heading(
    "Bias or speed",
    "A rule that rejects fewer tokens than the lossless rule biases the output: the output no "
    "longer follows the target's distribution. This page computes the rejections and the bias "
    "exactly.",
)
with st.sidebar:
    names = {each.name: each for each in EXAMPLES}
    chosen = st.selectbox("The bars start from", names, key="bias_example", bind="query-params")
example = names[chosen]
settings = show_position(example)
if take_linked_experiment():
    st.session_state["bias_section"] = "Quality"
section = st.segmented_control(
    "More about these distributions",
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
    elif section == "Quality":
        show_quality()
    else:
        show_output(settings, example)
except TheoryError as problem:
    show_error(problem)
st.subheader("Formulas", anchor=False)
show_bias_formulas()
show_letters()
show_reference()

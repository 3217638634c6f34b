"""The Bias or speed page without a browser: numbers, extremes, simulation, tokens of a run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from specviz.record.trace import RunConfig, Trace
from specviz.theory import blocks, multidraft
from specviz.theory.examples import EXAMPLES, REF5, WORKED_EXAMPLE
from specviz.ui.theory.bias.charts import ExactPoint
from specviz.ui.theory.bias.sections import (
    blocks_sentence,
    drafts_sentence,
    plane_sentence,
    run_dots,
)
from specviz.ui.theory.bias.simulation import NARROW, Settings, Simulation
from specviz.ui.widgets.distribution_bars import MOST_TOKENS
from tests.traces import make_candidate, make_round, make_trace
from tests.ui.paging import page_of, sent, sound
from tests.ui.theory_pages import LIMIT_MS, charts, median_ms, unexplained, words

SETTINGS = Settings(
    draft=REF5.draft, target=REF5.target, epsilon=0.05, lenience=0.8, threshold=0.15
)


def drawn(app: AppTest, chart: str, name: str) -> dict[str, list[float]]:
    return next(each for each in charts(app)[chart]["data"] if each["name"] == name)


def test_opens_with_the_worked_example_of_the_guide() -> None:
    app = page_of("bias", bias_pause="true")
    assert sent(app)["labels"] == list(WORKED_EXAMPLE.labels)
    assert sent(app)["now"]["draft"] == pytest.approx(WORKED_EXAMPLE.draft)
    assert "“breakthrough” is accepted with probability 0.50" in words(app)
    assert "over-acceptance ε 0.05)" in words(app)  # without it the three numbers do not agree
    assert "the distance between the models, 0.350." in words(app)
    assert "paused before it began" in words(app)


def test_plane_shows_the_exact_points() -> None:
    app = page_of("bias", bias_example="five tokens", bias_t="0.15", bias_pause="true")
    exact = drawn(app, "bias_plane", "exact")
    # OPT, UNO, the draft again, lenience 0.8, threshold 0.15
    assert exact["x"] == pytest.approx([0.20, 0.20, 0.20, 0.2125, 0.20], abs=1e-9)
    assert exact["y"] == pytest.approx([0.10, 0.17, 0.23, 0.0875, 0.25], abs=1e-9)
    front = drawn(app, "bias_plane", "Pareto front")
    assert front["x"] == pytest.approx([0.3, 0.0], abs=1e-9)
    assert "**0.200**" in words(app)


def test_simulated_points_match_the_exact_ones() -> None:
    simulation = Simulation(SETTINGS)
    while not simulation.done:
        simulation.step()
    marks: list[ExactPoint] = [each.exact_point() for each in SETTINGS.policies()]
    for mark, landing in zip(marks, simulation.simulated(), strict=True):
        assert landing.name == mark.name
        assert 0 < landing.reject_width <= NARROW
        assert abs(landing.reject - mark.reject) < 2 * landing.reject_width
        assert abs(landing.bias - mark.bias) < 2 * landing.bias_width


def test_each_rerun_adds_a_batch_until_paused_or_settings_change() -> None:
    app = page_of("bias")
    assert "10,000 positions simulated" in words(app)
    assert "20,000 positions simulated" in words(sound(app.run()))
    sound(app.toggle(key="bias_pause").set_value(True).run())
    assert "20,000 positions simulated" in words(app)
    sound(app.slider(key="bias_epsilon").set_value(0.1).run())
    assert "paused before it began" in words(app)


@pytest.mark.parametrize(
    ("example", "end"),
    [
        pytest.param(each.name, end, marks=() if each in EXAMPLES[::4] else pytest.mark.thorough)
        for end in (0, 1)
        for each in EXAMPLES
    ],
)
def test_survives_sliders_at_their_ends(example: str, end: int) -> None:
    app = page_of("bias", bias_example=example)
    for each in app.slider:
        each.set_value((each.min, each.max)[end])
    for section in ("What comes out", "Whole blocks", "Several drafts", "Your runs"):
        sound(app.segmented_control(key="bias_section").set_value([section]).run())
        for each in app.slider:
            each.set_value((each.min, each.max)[end])
        sound(app.run())
        assert not app.error
        assert not unexplained(app)


def test_ignores_link_values_out_of_range() -> None:
    app = page_of(
        "bias",
        bias_epsilon="7", bias_lenience="-1", bias_t="x", bias_example="none", bias_section="?",
    )  # fmt: skip
    values = {each.key: each.value for each in app.slider}
    assert values == {"bias_epsilon": 0.05, "bias_lenience": 0.8, "bias_t": 0.12}


def test_block_and_drafts_curves_match_the_library() -> None:
    link = {"bias_example": "five tokens", "bias_pause": "true"}
    app = page_of("bias", bias_section="Whole blocks", bias_gamma="4", **link)
    counts = blocks.accepted_curves(REF5.draft, REF5.target, 4)
    assert drawn(app, "bias_blocks", "block verification")["y"] == pytest.approx(counts.block)
    assert "**2.145**" in words(app)
    app = page_of("bias", bias_section="Several drafts", bias_drafts="3", **link)
    curves = multidraft.acceptance_curves(REF5.draft, REF5.target, 3)
    assert drawn(app, "bias_zoo", "K-SEQ")["y"] == pytest.approx(curves.k_sequential)
    assert "**0.873**" in words(app)


def test_sentences_at_the_ends_of_the_sliders() -> None:
    assert "the bias would be 0.170" in plane_sentence(SETTINGS)
    never = plane_sentence(replace(SETTINGS, epsilon=1.0))
    assert "rejected with probability **0.000**" in never
    assert "would be" not in never
    one_block = blocks.accepted_curves(REF5.draft, REF5.target, 1)
    assert one_block.block == pytest.approx(one_block.token)
    assert one_block.block == pytest.approx(one_block.bound)
    assert "both accept with probability **0.700**" in blocks_sentence(one_block)
    one_draft = multidraft.acceptance_curves(REF5.draft, REF5.target, 1)
    assert one_draft.recursive == pytest.approx(one_draft.optimal)
    assert "With one draft for one position" in drafts_sentence(one_draft)


def test_rejects_dragged_bars_that_are_no_distributions() -> None:
    app = page_of("bias", bias_pause="true")
    mark = sent(app)["id"]
    equal = [0.2] * 5
    app.session_state["bias_bars"] = {"laws": {"id": mark, "draft": equal, "target": equal}}
    assert "Draft and target are equal" in words(sound(app.run()))
    bad = ([0.9] * 5, [1.0], ["a"] * 5, None, [float("nan")] * 5)
    for draft in bad:
        app.session_state["bias_bars"] = {"laws": {"id": mark, "draft": draft, "target": equal}}
        assert "the distance between the models, 0.350." in words(sound(app.run()))
    assert all(len(each.labels) <= MOST_TOKENS for each in EXAMPLES)


def lossy_trace() -> Trace:
    """Return three tested tokens: one on the front, one above it, one where the models agree."""
    config = RunConfig(gamma=3, rule="over-accept", epsilon=0.1)
    fields = ((0.8, 0.6, 0.2), (0.75, 0.5, 0.4), (1.0, 1.0, 0.0))
    candidates = tuple(
        make_candidate(
            "a", token_id=10 + at, expected_acceptance=expected, overlap=overlap, bias=bias,
            text="<b>\u202e",
        )
        for at, (expected, overlap, bias) in enumerate(fields)
    )  # fmt: skip
    return make_trace([replace(make_round("aaa"), candidates=candidates)], config=config)


def test_dots_of_a_run_are_scaled_by_their_distance() -> None:
    dots = run_dots(lossy_trace())
    assert list(dots.reject) == pytest.approx([0.5, 0.5])
    assert list(dots.bias) == pytest.approx([0.5, 0.8])
    assert "&lt;b&gt;\\u202e" in dots.tooltips[0]


def test_shows_over_accepting_runs_of_the_session() -> None:
    app = page_of("bias", bias_section="Your runs", bias_pause="true")
    assert [each.value[:26] for each in app.info] == ["No run of this session use"]
    shown = SimpleNamespace(trace=lossy_trace())
    app.session_state["history"] = SimpleNamespace(shown_runs=lambda: [shown])
    sound(app.run())
    assert drawn(app, "bias_run", "tokens of the run")["x"] == pytest.approx([0.5, 0.5])
    assert "3 tested tokens with ε 0.1; recovered tokens are drawn from the residual" in words(app)
    assert "2 dots for the 3 tested tokens of the newest over-accepting run" in words(app)
    assert "Tokens on which the models agree have no dot: 1 of 3." in words(app)


def test_rerun_after_a_change_is_fast() -> None:
    app = page_of("bias")

    def move(app: AppTest, turn: int) -> None:
        app.slider(key="bias_epsilon").set_value(0.1 + 0.02 * turn)

    spent = median_ms(app, move)
    print(f"server time of a rerun {spent:.0f} ms (limit {LIMIT_MS})")
    assert spent < LIMIT_MS


def test_each_step_counts_all_its_positions() -> None:
    simulation = Simulation(SETTINGS)
    for _ in range(2):
        simulation.step()
    assert simulation.trials == 20_000
    for each in simulation.tallies.values():
        assert each.trials == each.emitted.sum() == 20_000

"""The page When the formula misleads: numbers match the library, and extremes do not break it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from specviz.figures.metrics import metrics
from specviz.record.trace import RunConfig, Trace
from specviz.store import load_trace
from specviz.theory.clustering import StickyText, tokens_per_round
from specviz.theory.estimates import alpha_from_drafted, wilson_interval
from specviz.theory.runtime import rounds_distribution, rounds_distributions
from specviz.theory.speed import expected_tokens
from specviz.theory.temperature import overlap
from specviz.ui.theory.misleading import machine_batch
from specviz.ui.theory.misleading.sections import _PAIRS
from specviz.ui.theory.misleading.sentences import best_gammas_sentence, tail_sentence
from tests.batch_forecasts import batch_forecast
from tests.traces import make_trace
from tests.ui.paging import ROOT, page_of, sound
from tests.ui.theory_pages import LIMIT_MS, charts, median_ms, unexplained, words

TABS = ("Clusters", "Mean and tail", "Batch and context", "Temperature", "Estimating α")


def curve(app: AppTest, chart: str, name: str) -> list[float]:
    (found,) = [
        each for each in charts(app)[chart]["data"] if each.get("name", "").startswith(name)
    ]
    return found["y"]


def test_clusters() -> None:
    app = page_of("misleading")
    text = StickyText(easy=0.95, hard=0.45, easy_share=0.6, stickiness=0.8)
    exact = tokens_per_round(text, 5)
    assert f"predicts **{expected_tokens(0.75, 5):.2f}** tokens" in words(app)
    assert f"the exact number is **{exact:.2f}**" in words(app)
    assert curve(app, "misleading_clusters", "chosen") == [pytest.approx(exact)]
    sound(app.slider(key="misleading_stickiness").set_value(0.0).run())
    assert f"the exact number is **{expected_tokens(0.75, 5):.2f}**" in words(app)


def test_mixed_text_matches_the_formula() -> None:
    app = page_of("misleading", misleading_stickiness="0")
    for gamma in range(1, 25, 3):
        sound(app.slider(key="misleading_gamma").set_value(gamma).run())
        assert "** tokens, which is the same number." in words(app)


def test_certain_acceptance_has_no_limit() -> None:
    app = page_of("misleading", misleading_easy="1", misleading_hard="1")
    assert "the exact number and the formula’s grow without limit" in words(app)
    assert "would yield 6.00 tokens on average, as many as the formula predicts" in words(app)
    sound(app.slider(key="misleading_hard").set_value(0.5).run())
    assert "more than the formula predicts (Jensen's inequality)" in words(app)
    assert re.search(r"\*\* tokens, which is \d+\.\d % fewer\.", words(app))


def test_mean_and_tail() -> None:
    app = page_of("misleading", misleading_tab="Mean and tail", misleading_alpha="0.7",
               misleading_tail_gamma="4")  # fmt: skip
    rounds = rounds_distribution(0.7, 4, 128)
    assert "the mean speedup is **1.96**" in words(app)
    assert "the slowest 1 % of texts is at most **1.63**" in words(app)
    expected = rounds.speedup(rounds.mean, 0.1)
    assert curve(app, "misleading_tail", "mean")[3] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("alpha", "c", "v", "says"),
    [
        (0.7, 0.1, 1.0, ("the mean speedup is", "for the mean speedup and")),
        (0.3, 0.9, 2.0, ("the mean speedup is", "No γ pays.")),
        (0.0, 0.0, 1.0, ("every text has a speedup of **1.00**", "No γ pays.")),
        (
            1.0,
            0.1,
            1.0,
            ("every text has a speedup of **", "The best γ is 15, both for the mean speedup and"),
        ),
        (0.85, 0.0, 1.0, ("the mean speedup is", "γ up to 16, where this search ends, is 16 for")),
    ],
)
def test_tail_sentences(alpha: float, c: float, v: float, says: tuple[str, str]) -> None:
    distributions = rounds_distributions(alpha, 16, 128)
    assert says[0] in tail_sentence(distributions[7], c, v)
    assert says[1] in best_gammas_sentence(distributions, c, v)


def test_best_gamma_can_exist_for_the_mean_only() -> None:
    text = best_gammas_sentence(rounds_distributions(0.5, 16, 16), 0.3, 1.0)
    assert "for the slowest 1 % of texts, no γ pays" in text


def test_batch_and_context() -> None:
    app = page_of("misleading", misleading_tab="Batch and context")
    assert "the speedup is **2.08**; the best γ, 4, gives 2.34" in words(app)
    assert curve(app, "misleading_batch_speed", "1,024")[0] == pytest.approx(2.503, abs=5e-4)


def test_warns_if_the_caches_or_weights_do_not_fit() -> None:
    app = page_of("misleading", misleading_tab="Batch and context", misleading_batch="512",
               misleading_context="65536", misleading_gpu="A100")  # fmt: skip
    (warning,) = app.warning
    assert "does not fit the 80 GB of the A100. At most" in warning.value
    assert next(iter(charts(app))) == "misleading_bytes"
    assert "misleading_batch_speed" in charts(app)
    sound(app.slider(key="misleading_target").set_value(600.0).run())
    assert list(charts(app)) == ["misleading_bytes"]
    assert "The weights alone take 1,201 GB" in app.warning[0].value


def test_temperature() -> None:
    app = page_of("misleading", misleading_tab="Temperature")
    assert "α is **0.800**" in words(app)
    assert "the draft at temperature 0.44 instead, α is **0.840**" in words(app)
    sound(app.selectbox(key="misleading_pair").select("Two favourites").run())
    assert "α is **0.700**" in words(app)
    sound(app.slider(key="misleading_temperature").set_value(0.0).run())
    assert "α is **0.000**" in words(app)


@pytest.mark.parametrize("pair", _PAIRS)
def test_best_draft_temperature_matches_its_acceptance(pair: str) -> None:
    draft, target = (np.log(probs) for probs in _PAIRS[pair])
    app = page_of("misleading", misleading_tab="Temperature", misleading_pair=pair)
    for heat in (0.0, 0.05, 0.3, 1.0, 2.0, 3.2, 4.0, 5.0):
        sound(app.slider(key="misleading_temperature").set_value(heat).run())
        found = re.search(r"at temperature ([\d.]+) instead, α is \*\*([\d.]+)\*\*", words(app))
        if found is None:
            assert "No other draft temperature gives a higher rate" in words(app)
        else:
            alpha = overlap(draft, target, heat, float(found[1]))
            assert float(found[2]) == pytest.approx(alpha, abs=5.1e-4)
            assert alpha > overlap(draft, target, heat)


def test_estimates_of_the_recorded_run() -> None:
    app = page_of("misleading", misleading_tab="Estimating α")
    figures = metrics(load_trace(ROOT / "assets" / "first_trace.json"))
    share = figures.num_accepted / figures.num_drafted
    assert f"accepted / drafted is **{share:.3f}**" in words(app)
    assert f"accepted / tested, is **{figures.alpha_observed:.3f}**" in words(app)
    assert f"α = {alpha_from_drafted(share, 5):.3f}" in words(app)
    (dots,) = charts(app)["misleading_estimates"]["data"]
    assert dots["x"] == pytest.approx([share, figures.alpha_observed, figures.alpha_expected])
    assert "Wilson" in words(app)
    assert "Hoeffding 1963" in words(app)
    low, high = wilson_interval(figures.num_accepted, figures.num_tested)
    assert dots["x"][1] + dots["error_x"]["array"][1] == pytest.approx(high)
    assert dots["x"][1] - dots["error_x"]["arrayminus"][1] == pytest.approx(low)


def with_run(trace: Trace) -> AppTest:
    """Open the estimates with one run in the session."""
    app = page_of("misleading", misleading_tab="Estimating α")
    run = SimpleNamespace(id="a run", trace=trace, figures=metrics(trace))
    app.session_state["history"] = SimpleNamespace(shown_runs=lambda: [run])
    return sound(app.run())


def test_no_formula_for_prompt_lookup() -> None:
    app = with_run(make_trace(["ar", "a"], config=RunConfig(gamma=3, drafter="prompt-lookup")))
    assert "so the formula does not apply" in words(app)
    assert "the formula predicts" not in words(app)
    assert "By the formula" not in words(app)


def test_over_accepting_run_shows_the_overlap_with_epsilon() -> None:
    lossy = RunConfig(gamma=2, rule="over-accept", epsilon=0.1)
    app = with_run(make_trace(["ar"], config=lossy))
    (dots,) = charts(app)["misleading_estimates"]["data"]
    assert dots["y"][2] == "mean overlap with ε"
    assert "mean overlap" not in words(app)


def test_batches_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = batch_forecast()
    monkeypatch.setattr(machine_batch, "newest_batch_forecast", lambda: found)
    app = page_of("misleading", misleading_tab="This machine's batch")
    assert curve(app, "misleading_machine_speed", "forecast") == [
        pytest.approx(each.forecast) for each in found.points
    ]
    assert "forecast: no scheduler, no ragged acceptance" in words(app).lower()
    assert "within 5.0 % of" in words(app)
    assert "Recorded example" not in words(app)
    assert not unexplained(app)


def test_batches_of_another_machine_are_labelled() -> None:
    app = page_of("misleading", misleading_tab="This machine's batch")
    assert "**Recorded example** from another machine." in words(app)
    assert charts(app)["misleading_machine_map"]


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("end", ["min", "max"])
def test_survives_sliders_at_their_ends(tab: str, end: str) -> None:
    app = page_of("misleading", misleading_tab=tab)
    assert not unexplained(app)
    for widget in app.slider:
        if str(widget.key).startswith("misleading_"):
            widget.set_value(getattr(widget, end))
    assert charts(sound(app.run()))


def test_ignores_link_values_out_of_range() -> None:
    app = page_of("misleading", misleading_tab="Batch and context", misleading_gpu="Abacus",
               misleading_batch="99999", misleading_batch_alpha="nan")  # fmt: skip
    batch: Any = app.slider(key="misleading_batch").value
    alpha: Any = app.slider(key="misleading_batch_alpha").value
    assert 1 <= batch <= 512
    assert 0.0 <= alpha <= 1.0
    assert app.selectbox(key="misleading_gpu").value in {"A100", "H100", "H200"}


@pytest.mark.parametrize(
    ("tab", "key"),
    [
        ("Clusters", "misleading_easy"),
        ("Mean and tail", "misleading_alpha"),
        ("Batch and context", "misleading_batch_alpha"),
        ("Temperature", "misleading_temperature"),
    ],
)
def test_rerun_after_a_change_is_fast(tab: str, key: str) -> None:
    app = page_of("misleading", misleading_tab=tab)

    def change(app: AppTest, turn: int) -> None:
        app.slider(key=key).set_value(0.5 + 0.05 * turn)

    assert median_ms(app, change) < LIMIT_MS

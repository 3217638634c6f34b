"""The Claims page in bare mode: cards, filters, links to charts, runs of the real worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from specviz.engine import load_pair
from specviz.engine.model.pair import Pair
from specviz.measure.measured_run import finish, measured_run
from specviz.measure.step_costs import costs_key
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig, Trace
from specviz.store import save_value
from specviz.theory.claims import Claim, RunName, claims
from specviz.ui.theory.claims import runs as claim_runs
from specviz.ui.theory.claims.evidence import evidence_of, trend_sentence
from specviz.ui.theory.claims.recorded_tasks import recorded_sentence, task_table
from specviz.ui.theory.claims.runs import EPSILONS, plans, the_claim_runs
from specviz.ui.theory.claims.theorems import dots_sentence, plane_of
from specviz.ui.theory.kept_methods import recorded_methods
from specviz.ui.widgets import pair_panel
from specviz.ui.widgets.plain_text import as_text
from tests.traces import make_costs
from tests.ui.paging import page_of, sound, until
from tests.ui.theory_pages import LIMIT_MS, charts, median_ms, unexplained, words

RUNS = get_args(RunName)
CLAIMS = claims()


def claims_page(**link: str) -> AppTest:
    return page_of("claims", **link)


def quotes(app: AppTest) -> list[str]:
    return [each.value for each in app.markdown if each.value.startswith("**“")]


def test_the_page_shows_every_claim_with_its_verdict() -> None:
    app = claims_page()
    assert len(quotes(app)) == len(CLAIMS)
    text = " ".join(each.value for each in app.markdown)
    for claim in CLAIMS:
        assert all(f"**{figure.text}**" in text for figure in claim.figures)
    for mark in ("✓ Holds", "◐ Holds within limits", "✕ Does not hold"):
        assert mark in text


def test_filters_by_source_and_verdict() -> None:
    app = claims_page()
    sound(app.pills(key="claims_source").set_value(["sd_optimization"]).run())
    wanted = [each for each in CLAIMS if each.source == "sd_optimization"]
    assert len(quotes(app)) == len(wanted) > 0
    sound(app.pills(key="claims_verdict").set_value(["Does not hold"]).run())
    assert not quotes(app)
    assert "No claim has this source" in app.info[0].value


def test_link_sets_a_filter() -> None:
    app = claims_page(claims_verdict="Does not hold")
    wanted = [each for each in CLAIMS if each.verdict == "Does not hold"]
    assert len(quotes(app)) == len(wanted)


def opened_by(claim: Claim) -> AppTest:
    """Open the chart that the card links to."""
    return page_of(claim.chart.page, **claim.chart.query)


@pytest.mark.parametrize(
    "claim", [each for each in CLAIMS if each.chart.settings], ids=lambda each: each.id
)
def test_link_opens_the_chart_at_the_claim_s_flip(claim: Claim) -> None:
    app = opened_by(claim)
    for key, value in claim.chart.settings:
        found: Any = app.session_state[key]
        assert (found[0] if isinstance(found, list) else found) == pytest.approx(value), key


def test_rerun_is_fast() -> None:
    assert median_ms(claims_page(), lambda app, turn: None) < LIMIT_MS


def test_formulas_explain_their_letters() -> None:
    app = claims_page()
    typeset = [each.latex for each in CLAIMS if each.latex]
    assert len(app.latex) == len(typeset) + 2  # those of the theorems
    assert not unexplained(app)
    for claim in CLAIMS:
        text = claim.finding + claim.flip
        assert not any(sign in text for sign in ("^", "max(", "target / draft"))


# Linked charts show the numbers of the card


def test_drafts_chart_uses_the_chain_of_the_card() -> None:
    card = next(each for each in CLAIMS if each.id == "batch-scaling")
    app = opened_by(card)
    one, four, limit = (each.text for each in card.figures)
    assert f"{one} rejections with one draft, **{four}** with 4 drafts" in words(app)
    assert f"at least {limit} with any number of drafts" in words(app)
    app = opened_by(next(each for each in CLAIMS if each.id == "batch-accuracy"))
    assert "the distribution of its first 3 tokens differs from the target's only" in words(app)


def test_memory_chart_uses_the_models_of_the_card() -> None:
    app = opened_by(next(each for each in CLAIMS if each.id == "terabytes-a-token"))
    assert "A pass of the target reads **1 TB** of weights" in words(app)
    assert "does not fit" in app.warning[0].value
    card = next(each for each in CLAIMS if each.id == "barely-fits")
    app = opened_by(card)
    assert not app.warning
    line = charts(app)["misleading_batch_speed"]["data"][0]
    assert (line["x"], line["mode"]) == ([1], "lines+markers")
    size = app.slider(key="misleading_target")
    sound(size.set_value(card.figures[0].value).run())
    assert "does not fit the 80 GB" in app.warning[0].value


def test_token_charts_show_the_flip() -> None:
    app = opened_by(next(each for each in CLAIMS if each.id == "rejections-and-time"))
    assert "At γ 28, a round yields" in words(app)
    app = opened_by(next(each for each in CLAIMS if each.id == "counted-acceptance"))
    assert "At γ 1, a round yields 1.60 tokens" in words(app)
    app = opened_by(next(each for each in CLAIMS if each.id == "grounded-tasks"))
    bars = charts(app)["speed_tasks"]["data"]
    shown = {(each["name"], task): y for each in bars for task, y in zip(each["x"], each["y"])}  # noqa: B905
    assert shown["draft model (reported)", "translation"] == 1.13
    assert shown["prompt lookup (reported)", "summarisation"] == 2.43


# Runs


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the timed runs of the cards short, on one prompt of each of two kinds."""
    config = replace(claim_runs._TIMED, max_new_tokens=24)
    monkeypatch.setattr(claim_runs, "_TIMED", config)
    first = {each.kind: each for each in reversed(read_presets())}
    presets = (first["story"], first["list"])
    monkeypatch.setattr(claim_runs, "read_presets", lambda: presets)


@pytest.mark.usefixtures("short_runs")
def test_button_starts_runs_that_every_tab_sees() -> None:
    app = claims_page(claims_verdict="Holds within limits")
    sound(app.button(key="claims_run_grounded-tasks").click().run())
    runs = the_claim_runs()
    assert runs.going("kinds")
    assert app.button(key="claims_run_grounded-tasks").disabled
    other = claims_page(claims_verdict="Holds within limits")
    assert other.button(key="claims_run_grounded-tasks").disabled
    assert any(each.value.startswith("Working: ") for each in other.caption)
    until(app, lambda: not runs.busy_cards)
    assert runs.failure("kinds") is None
    found = runs.evidence("kinds")
    assert found is not None
    assert found.sentence.startswith("Expected α by kind of prompt")
    for page in (sound(app.run()), sound(other.run())):
        assert any("Expected α by kind of prompt" in each.value for each in page.markdown)
        assert page.button(key="claims_run_grounded-tasks").label == "Run again"
        assert not any(each.value.startswith("Working: ") for each in page.caption)


@pytest.mark.usefixtures("short_runs")
def test_timed_runs_also_appear_on_watch() -> None:
    app = claims_page()
    sound(app.button(key="claims_run_small-targets").click().run())
    runs = the_claim_runs()
    until(app, lambda: not runs.busy_cards)
    sound(app.run())
    run = app.session_state["history"].current
    assert run.trace.baseline is not None
    found = runs.evidence("speed")
    assert found is not None
    assert "the textbook formula" in found.sentence
    assert "target alone" in found.sentence
    others = [each for each in CLAIMS if each.run == "speed" and each.id != "small-targets"]
    folded = [each for each in app.expander if "in runs that another card started" in each.label]
    assert len(folded) == len(others) > 0


def test_runs_can_be_stopped_on_their_card_and_on_another_page() -> None:
    app = claims_page()
    sound(app.button(key="claims_run_theorem-1").click().run())
    runs = the_claim_runs()
    work = runs.going("rejections")
    assert work is not None
    sound(app.button(key="claims_run_theorem-5").click().run())
    waiting = runs.going("pareto")
    assert waiting is not None
    assert waiting.state == "waiting"
    sound(app.button(key=f"claims_stop_{waiting.id}").click().run())
    assert waiting.state == "stopped"
    elsewhere = page_of("runs")
    sound(elsewhere.button(key="work_stop").click().run())
    assert work.wait(60)
    assert work.state == "stopped"
    assert runs.evidence("rejections") is None
    assert "stopped before they finished" in str(runs.failure("rejections"))
    sound(app.run())
    assert not app.button(key="claims_run_theorem-1").disabled


# Evidence of short runs


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(PairSpec(name="tinystories", threads=1))


def short_traces(
    pair: Pair, run: RunName, tokens: int = 12, spec: PairSpec | None = None
) -> list[Trace]:
    timed = run in ("speed", "estimates", "verification")
    made: list[Trace] = []
    for plan in plans(run, spec or PairSpec()):
        config: RunConfig = replace(plan.config, max_new_tokens=tokens)
        assert save_value("step-costs", costs_key(pair, config), make_costs())
        lap = measured_run(pair, plan.prompt, config, baseline=timed or plan.baseline)
        made.append(finish(lap))
        assert made[-1].rounds
    return made


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(each, marks=() if each in ("speed", "rejections") else pytest.mark.thorough)
        for each in RUNS
        if each != "drafts"
    ],
)
def test_a_target_alone_tests_claims_with_a_method_that_needs_no_draft(
    pair: Pair, run: RunName
) -> None:
    alone = replace(pair, draft=None, info=replace(pair.info, draft=None))
    traces = short_traces(alone, run, tokens=8, spec=PairSpec(target="alone"))
    assert {trace.config.drafter for trace in traces} == {"prompt-lookup"}
    assert evidence_of(run, traces).pair == pair.info.target.name


def test_a_claim_on_several_drafts_is_refused_for_a_target_alone(tmp_path: Path) -> None:
    app = claims_page()
    app.session_state[pair_panel._REQUESTED] = PairSpec(target=str(tmp_path))
    card = next(each.id for each in CLAIMS if each.run == "drafts")
    sound(app.button(key=f"claims_run_{card}").click().run())
    (refused,) = app.error
    assert "draft model" in refused.value
    assert list(app.container(f"claim_{card}").error) == [refused]
    assert the_claim_runs().going("drafts") is None
    sound(app.run())
    assert [each.value for each in app.error] == [refused.value]
    app.session_state[pair_panel._REQUESTED] = PairSpec()
    sound(app.run())
    assert not app.error


def test_recorded_runs_of_a_chat_model_test_the_claims_on_texts() -> None:
    recorded = recorded_methods().tasks
    assert len({each.task for each in recorded.found}) == 11  # ten, and all prompts together
    assert {each.temperature for each in recorded.found} == {0, 1}
    page = " ".join(each.value for each in claims_page().markdown)
    runs: tuple[RunName, ...] = ("kinds", "temperature")
    for run in runs:
        sentence = recorded_sentence(run, recorded.found)
        assert sentence is not None
        assert ("as claimed" if run == "temperature" else "are accepted more") in sentence
        assert as_text(sentence) in page
        table = task_table(run, recorded.found)
        assert len(table.splitlines()) == 2 + 11
        assert table in page
    assert "SmolLM2-135M-Instruct" in page


def test_overlapping_intervals_leave_a_claim_on_texts_undecided() -> None:
    points = recorded_methods().tasks.found
    wide = [
        replace(each, acceptance=replace(each.acceptance, low=0.0, high=1.0)) for each in points
    ]
    for run in ("kinds", "temperature"):
        assert "overlap" in (recorded_sentence(run, wide) or "")
    assert recorded_sentence("speed", points) is None


def test_trend_sentence_names_falls_and_rises() -> None:
    turning = {0.0: 0.7, 0.3: 0.744, 0.7: 0.7, 1.0: 0.65, 1.5: 0.5}
    assert trend_sentence(turning).startswith(
        "α falls from T 0.3 to 1.5, as claimed; α rises from T 0 to 0.3 by 0.044."
    )
    assert trend_sentence(turning | {0.0: 0.8}).startswith("α falls from T 0 to 1.5, as claimed.")
    twice = trend_sentence(turning | {0.0: 0.8, 1.0: 0.75})
    assert "from T 0 to 0.7 and from T 1 to 1.5, as claimed; α rises from T 0.7 to 1" in twice
    assert trend_sentence({0.0: 0.5, 1.0: 0.6}).startswith("α does not fall; α rises from T 0 to 1")


# Phrases that only the evidence of these runs contains.
PHRASES: dict[RunName, tuple[str, ...]] = {
    "speed": ("best γ would be",),
    "estimates": ("yielded all 6 tokens", "all candidates are accepted in"),
    "drafts": ("M 1:", "M 2:", "M 4:", "rejections per 100 tokens"),
    "blocks": ("candidates were accepted", "of the same candidates are"),
    "residual": ("is drawn from the residual", "is drawn from the target itself"),
    "benchmark": (
        "the greedy target alone by the time of sampled speculation",
        "the first call took",
    ),
}


@pytest.fixture
def few_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the runs of a claim two prompts of each kind that plans name."""
    presets = read_presets()
    stories, dialogues = (
        [each for each in presets if each.kind == kind][:2] for kind in ("story", "dialogue")
    )
    monkeypatch.setattr(claim_runs, "read_presets", lambda: (*stories, *dialogues))


@pytest.mark.usefixtures("few_prompts")
@pytest.mark.parametrize("run", RUNS)
def test_every_run_yields_evidence(
    pair: Pair, run: RunName, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    found = evidence_of(run, short_traces(pair, run))
    assert found.pair == "tinystories"
    assert any(sign.isdigit() for sign in found.sentence)
    assert "nan" not in found.sentence
    assert all(phrase in found.sentence for phrase in PHRASES.get(run, ()))
    assert bool(found.figures) == (run == "rejections")
    assert len(found.lossy) == (2 * len(EPSILONS) if run == "pareto" else 0)


@pytest.mark.usefixtures("few_prompts")
def test_plane_draws_a_dot_per_token(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    found = evidence_of("pareto", short_traces(pair, "pareto", 16))
    leftover, target = found.lossy[0], found.lossy[1]
    assert (leftover.rule, target.rule) == ("OPT", "UNO")
    drawn: Any = plane_of(leftover)
    dots = next(each for each in drawn.data if each.name == "tokens of the run")
    apart = leftover.plane.distance > 1e-4
    assert len(dots.x) == apart.sum()
    assert dots_sentence(leftover).startswith(
        f"one dot per token on which the models differ: {apart.sum():,} tokens"
    )
    assert f"out of {leftover.plane.num_tested:,} tested tokens" in dots_sentence(leftover)
    many = replace(leftover.plane, distance=np.append(np.full(700, 0.5), np.zeros(50)),
                   reject=np.zeros(750), bias=np.full(750, 0.5))  # fmt: skip
    cut = replace(leftover, plane=many)
    assert dots_sentence(cut) == (
        "one dot per token on which the models differ: the first 600 of 700 tokens, out of 750 "
        "tested tokens; 50 tokens have no dot, because the models differ there by less than 0.0001"
    )
    drawn = plane_of(cut)
    assert len(next(each for each in drawn.data if each.name == "tokens of the run").x) == 600
    assert [a + b for a, b in zip(dots.x, dots.y, strict=True)] == pytest.approx(
        [1.0] * len(dots.x), abs=1e-2
    )
    assert target.plane.mean_bias > target.plane.mean_distance - target.plane.mean_reject


@pytest.mark.parametrize("run", RUNS)
def test_runs_of_a_claim_have_different_seeds(run: RunName) -> None:
    seeds = [plan.config.seed for plan in plans(run, PairSpec())]
    assert len(set(seeds)) == len(seeds) > 0


def test_claims_use_exactly_the_planned_runs() -> None:
    assert {each.run for each in CLAIMS if each.run is not None} == set(RUNS)

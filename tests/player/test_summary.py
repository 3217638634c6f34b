"""The summary: each figure shows its formula and the numbers that go into it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from specviz.figures.body_words import SpeedupWithoutBody
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.speedup_words import why_sentence
from specviz.player.summary import summary
from specviz.record.trace import Trace
from specviz.theory.speed import break_even_alpha
from tests.changed_metrics import with_costs, with_tau, with_timing
from tests.traces import BODY, full_trace, make_trace, with_bodies

HEADLINES = ["alpha-observed", "tau", "speedup-observed", "tokens-per-second"]


def shown(trace: Trace, figures: Metrics | None = None) -> dict[str, dict[str, object]]:
    words = summary(trace, figures or metrics(trace))
    return {each["id"]: each for each in [*words["figures"], *words["finer"]]}


def test_shows_four_headlines() -> None:
    trace = full_trace()
    assert [each["id"] for each in summary(trace, metrics(trace))["figures"]] == HEADLINES


def test_values_equal_the_metrics() -> None:
    trace = full_trace()
    figures, seen = metrics(trace), shown(trace)
    pairs = {
        "alpha-observed": figures.alpha_observed,
        "alpha-expected": figures.alpha_expected,
        "tau": figures.tau,
        "speedup-observed": figures.speedup_observed,
        "speedup-forecast": figures.speedup_forecast,
        "speedup-ideal": figures.speedup_ideal,
        "speedup-accounted": figures.speedup_accounted,
        "speedup-end-to-end": figures.speedup_end_to_end,
        "c": figures.c,
        "v": figures.v,
    }
    assert {name: seen[name]["value"] for name in pairs} == pairs
    assert None not in pairs.values()


def test_help_puts_the_numbers_into_the_formula() -> None:
    seen = shown(make_trace(["aar", "aaa", "rdd"]))
    assert "5 / 7" in str(seen["alpha-observed"]["help"])
    assert "5 / 9" in str(seen["draft-acceptance-rate"]["help"])
    assert "8 / 3" in str(seen["tau"]["help"])


QUOTIENT = re.compile(r"= ([\d.e+-]+)(?: s| ms)? / ([\d.e+-]+)")
FORMULAS: dict[str, Callable[[dict[str, float]], float]] = {
    "speedup-forecast": lambda n: n["τ"] / round_cost(n),
    "speedup-ideal": lambda n: (
        (1 - n["α"] ** (n["γ"] + 1)) / ((1 - n["α"]) * (n["γ"] * n["c"] + 1))
    ),
    "speedup-accounted": lambda n: n["τ"] / round_cost(n),
    "speedup-limit": lambda n: (n["γ"] + 1) / round_cost(n),
    "break-even-alpha": lambda n: (
        break_even_alpha(n["c"], n["v"] + n["o"], gamma=int(n["γ"])) or math.nan
    ),
    "break-even-rate": lambda n: (round_cost(n) - 1) / n["γ"],
}


def round_cost(numbers: dict[str, float]) -> float:
    return numbers["γ"] * numbers["c"] + numbers["v"] + numbers["o"]


def computed(name: str, words: str) -> float:
    """Compute the figure from the numbers in its help."""
    if name in FORMULAS:
        named = re.findall(r"([ταγcvo]) = (\d[\d.]*\d|\d)", words)
        return FORMULAS[name]({letter: float(value) for letter, value in named})
    if name == "free-gamma":
        (v, gamma), (more, _) = re.findall(r"v = ([\d.]+) at γ (\d+)", words)
        return float(gamma) if float(v) <= 1.1 < float(more) else -1
    if name == "ttft-ms":
        return sum(map(float, re.findall(r"\d[\d.]*", words)[:2]))
    part, whole = map(float, QUOTIENT.findall(words)[-1])
    return part / whole


def test_the_numbers_in_each_help_give_the_figure() -> None:
    known = {name: each for name, each in shown(full_trace()).items() if each["value"] is not None}
    assert len(known) == 19
    for name, each in known.items():
        value = pytest.approx(each["value"], rel=5e-3, abs=2e-3)
        assert computed(name, str(each["help"])) == value, (name, each["help"])


def test_unknown_figures_are_dashes_without_values() -> None:
    seen = shown(make_trace(["aar"]))
    for name in ("speedup-observed", "speedup-forecast", "c", "speedup-interval"):
        assert (seen[name]["value"], seen[name]["shown"]) == (None, "–")
    assert seen["speedup-forecast"]["note"] == "step costs or acceptance were unknown"


def test_a_given_sentence_replaces_the_verdict() -> None:
    trace = full_trace()
    words = summary(trace, metrics(trace), sentence="12 tokens so far.")
    assert words["headline"] == "12 tokens so far"
    assert words["sentence"] == words["because"] == ""


def test_an_imprecise_speedup_is_shown_as_its_interval() -> None:
    trace, figures = full_trace(), metrics(full_trace())
    narrow = with_timing(figures, 1.4, 1.3, 1.5)
    wide = with_timing(figures, 1.4, 1.1, 1.9)
    result = [
        {each["id"]: each for each in summary(trace, found)["figures"]}["speedup-observed"]
        for found in (narrow, wide)
    ]
    assert [each["shown"] for each in result] == ["1.40×", "1.10–1.90×"]
    assert [each["value"] for each in result] == [1.4, 1.4]
    assert result[0]["note"].startswith("1.30–1.50 · ")
    assert "1.10–1.90" not in result[1]["note"]


def test_warns_if_speedup_and_costs_contradict_unless_growing() -> None:
    trace = full_trace()
    costed = with_costs(metrics(trace), gamma=3, c=0.2, v=1.4, error=0.05)
    known = with_timing(costed, 2.3, 2.2, 2.4)
    assert "no more than 2.10 times" in summary(trace, known)["lamp"]
    assert summary(trace, known, growing=True)["lamp"] == ""
    assert summary(trace, with_timing(costed, 2.3, 2.0, 2.4))["lamp"] == ""


@pytest.mark.parametrize(
    ("gamma", "c", "words"),
    [
        (
            5,
            0.15,
            "drafting 5 tokens takes 0.75 target steps and verification takes 1.25",
        ),
        (
            1,
            0.15,
            "drafting 1 token takes 0.15 target steps and verification takes 1.25",
        ),
        (
            3,
            0.0,
            "no model drafts, and verification takes 1.25 target steps",
        ),
    ],
)
def test_explains_the_speedup_in_a_sentence(gamma: int, c: float, words: str) -> None:
    figures = with_tau(with_costs(metrics(full_trace()), gamma=gamma, c=c, v=1.25), 4.6)
    made = f"{4.6 / (gamma * c + 1.25):.2f} times"
    sentence = why_sentence(figures)
    assert sentence.startswith(f"According to the step costs, {words}. A round gives 4.60 tokens, ")
    assert f"predicts a speedup of {made}." in sentence


def test_imprecise_step_costs_are_not_listed_one_by_one() -> None:
    figures = with_tau(with_costs(metrics(full_trace()), 5, 0.15, 1.25, error=0.4), 4.6)
    sentence = why_sentence(figures)
    assert "predict a speedup of 1.54 to 3.43 times" in sentence
    assert "imprecise" in sentence
    assert "1.25" not in sentence
    unknown = why_sentence(with_costs(figures, 5, 0.15, 1.25, error=2.0))
    assert "predict" not in unknown
    assert "imprecise" in unknown


@pytest.mark.parametrize(
    ("table", "observed", "words"),
    [
        ({}, (2.2, 2.4), ""),
        (
            {"drift": 0.4},
            (2.2, 2.4),
            "The step costs are imprecise, because the machine was busy when they were measured.",
        ),
        (
            {"samples": 1},
            (2.2, 2.4),
            "The step costs are imprecise, because they come from few samples.",
        ),
        (
            {},
            (2.5, 2.7),
            "The measured speedup, 2.50 to 2.70 times, is higher than predicted. The step costs, "
            "which were measured at another time, do not explain the difference.",
        ),
        (
            {"drift": 0.4},
            (1.1, 2.0),
            "The measured speedup, 1.10 to 2.00 times, is lower than predicted. The step costs are "
            "imprecise, because the machine was busy when they were measured.",
        ),
    ],
)
def test_names_doubts_about_the_step_costs(
    table: dict[str, Any], observed: tuple[float, float], words: str
) -> None:
    trace = full_trace()
    assert trace.step_costs is not None
    costs = dataclasses.replace(trace.step_costs, **table)
    figures = with_costs(metrics(trace), gamma=5, c=0.15, v=1.25)
    figures = with_timing(with_tau(figures, 4.6), observed[0], *observed)
    figures = dataclasses.replace(figures, trace=dataclasses.replace(trace, step_costs=costs))
    assert why_sentence(figures).partition("predicts a speedup of 2.30 times.")[2].strip() == words


def test_hides_a_useless_interval() -> None:
    trace = full_trace()
    figures = with_timing(metrics(trace), 1.0, 0.01, 2255.58)
    for so_far, words in ((True, "still being timed"), (False, "timing too noisy")):
        result = summary(trace, figures, so_far=so_far)
        tiles = {each["id"]: each for each in [*result["figures"], *result["finer"]]}
        assert "2255" not in repr([result["headline"], result["span"], result["sentence"]]) + repr(
            [(each["shown"], each["note"]) for each in tiles.values()]
        )
        assert tiles["speedup-observed"]["shown"] == tiles["speedup-interval"]["shown"] == "–"
        assert tiles["speedup-observed"]["note"].startswith(words)
        assert tiles["speedup-interval"]["note"] == words


def test_the_speedup_without_a_body_has_an_interval() -> None:
    trace = full_trace()

    def note(own: SpeedupWithoutBody) -> str:
        result = summary(trace, metrics(trace), own_speedup=own)["figures"]
        return next(each["note"] for each in result if each["id"] == "speedup-observed")

    assert "own size 1.38× (1.30–1.45)" in note(SpeedupWithoutBody(value=1.38, low=1.3, high=1.45))
    assert "own size 0.90–1.90×" in note(SpeedupWithoutBody(value=1.38, low=0.9, high=1.9))


def test_the_headline_names_the_simulated_sizes_and_the_speedup_without_them() -> None:
    trace = full_trace()
    own = SpeedupWithoutBody(value=1.38, low=1.3, high=1.45)
    assert summary(trace, metrics(trace))["sizes"] == ""
    simulated = with_bodies(trace, target=BODY)
    figures = metrics(simulated)
    assert summary(simulated, figures)["sizes"] == "simulated 88 M target"
    found = summary(simulated, figures, own_speedup=own)["sizes"]
    assert found == "simulated 88 M target; own size 1.38× (1.30–1.45)"
    assert summary(simulated, figures, sentence="12 tokens.")["sizes"] == ""


def test_gives_no_reason_without_step_costs() -> None:
    assert why_sentence(metrics(make_trace(["aar"]))) == ""


def test_notices_follow_the_timing() -> None:
    trace = dataclasses.replace(
        full_trace(), notices=("Rounds go step by step, without graphs: why.",)
    )
    assert summary(trace, metrics(trace))["because"].endswith(trace.notices[0])


@pytest.mark.parametrize(("high", "names"), [(0.9, True), (1.1, False)])
def test_a_slower_run_names_tune(high: float, names: bool) -> None:
    trace = full_trace()
    figures = with_timing(metrics(trace), 0.8, 0.7, high)
    assert ("The page Tune compares" in summary(trace, figures)["because"]) is names
    assert "The page Tune compares" not in summary(trace, figures, so_far=True)["because"]

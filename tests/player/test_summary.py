"""The figures in words: each shows its formula and the numbers that go into it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest

from specviz.player.summary import summary
from specviz.record.metrics import Metrics, metrics
from specviz.record.speedup_words import why_sentence
from specviz.record.trace import Trace
from tests.traces import full_trace, make_trace

HEADLINES = ["alpha-observed", "tau", "speedup-observed", "tokens-per-second"]


def shown(trace: Trace, figures: Metrics | None = None) -> dict[str, dict[str, object]]:
    words = summary(trace, figures or metrics(trace))
    return {each["id"]: each for each in [*words["figures"], *words["finer"]]}


def test_four_figures_stand_in_view() -> None:
    trace = full_trace()
    assert [each["id"] for each in summary(trace, metrics(trace))["figures"]] == HEADLINES


def test_values_are_those_of_the_analysis() -> None:
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
    "speedup-forecast": lambda n: n["τ"] / (n["γ"] * n["c"] + n["v"]),
    "speedup-ideal": lambda n: (
        (1 - n["α"] ** (n["γ"] + 1)) / ((1 - n["α"]) * (n["γ"] * n["c"] + 1))
    ),
    "speedup-accounted": lambda n: n["τ"] / (n["γ"] * n["c"] + n["v"]),
    "speedup-limit": lambda n: (n["γ"] + 1) / (n["γ"] * n["c"] + n["v"]),
}


def worked_out(name: str, words: str) -> float:
    """The figure again, by the numbers of its help."""
    if name in FORMULAS:
        named = re.findall(r"([ταγcv]) = (\d[\d.]*\d|\d)", words)
        return FORMULAS[name]({letter: float(value) for letter, value in named})
    if name == "ttft-ms":
        return sum(map(float, re.findall(r"\d[\d.]*", words)[:2]))
    if name == "drift":
        return float(re.findall(r"= ([\d.]+) − 1", words)[0]) - 1
    part, whole = map(float, QUOTIENT.findall(words)[-1])
    return part / whole


def test_each_help_gives_the_numbers_that_make_the_figure() -> None:
    known = {name: each for name, each in shown(full_trace()).items() if each["value"] is not None}
    assert len(known) == 17
    for name, each in known.items():
        value = pytest.approx(each["value"], rel=5e-3, abs=2e-3)
        assert worked_out(name, str(each["help"])) == value, (name, each["help"])


def test_what_is_not_known_is_a_dash_without_a_value() -> None:
    seen = shown(make_trace(["aar"]))
    for name in ("speedup-observed", "speedup-forecast", "c", "drift"):
        assert (seen[name]["value"], seen[name]["shown"]) == (None, "–")


def test_a_sentence_of_the_caller_goes_before_the_verdict() -> None:
    trace = full_trace()
    words = summary(trace, metrics(trace), sentence="12 tokens so far.")
    assert (words["sentence"], words["because"]) == ("12 tokens so far.", "")


def test_the_lamp_shines_only_beyond_the_possible() -> None:
    trace = full_trace()
    figures = dataclasses.replace(metrics(trace), gamma=3, c=0.2, v=1.4, drift=0.01)
    assert figures.speedup_limit == pytest.approx(2.0)
    dark = dataclasses.replace(figures, speedup_observed=2.09)
    bright = dataclasses.replace(figures, speedup_observed=2.11)
    noisy = dataclasses.replace(figures, speedup_observed=2.11, drift=0.2)
    lamps = [summary(trace, each)["lamp"] for each in (dark, bright, noisy)]
    assert [bool(lamp) for lamp in lamps] == [False, True, False]
    assert "2.11×" in lamps[1]
    assert "2.00×" in lamps[1]


@pytest.mark.parametrize(
    ("gamma", "c", "words"),
    [
        (5, 0.15, "Drafting 5 tokens cost 0.75 of a target step, checking 6 cost 1.25; 4.60"),
        (1, 0.15, "Drafting 1 token cost 0.15 of a target step, checking 2 cost 1.25; 4.60"),
        (3, 0.0, "Drafting was free, checking 4 cost 1.25 target steps; 4.60"),
    ],
)
def test_why_in_a_sentence(gamma: int, c: float, words: str) -> None:
    figures = dataclasses.replace(metrics(full_trace()), gamma=gamma, c=c, v=1.25, tau=4.6)
    assert why_sentence(figures).startswith(words)


def test_no_reason_where_the_costs_are_not_known() -> None:
    assert why_sentence(metrics(make_trace(["aar"]))) == ""

"""The player's charts, fed by the test."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import pytest

from specviz.player.payload import JsonObject
from tests.browser.fed_player import (
    COUNT,
    LIVE,
    NOTE,
    RESULT,
    THROUGHPUT,
    Feed,
    data_of,
    feed,
    making,
    words,
)
from tests.browser.long_runs import events_of, recorded, repeated
from tests.browser.reading import next_frame, seek

__all__ = ["feed"]  # a fixture

# The mark of each chart over rounds, from 0 at the left edge to 1.
MARKS = """() => ['.ch-acceptance .ch-cursor', '.ch-times .ch-now-slot'].map((each) => {
  const line = document.querySelector(each), box = line.closest('svg').getBoundingClientRect();
  return (line.getBoundingClientRect().left - box.left) / box.width;
})"""


def test_the_charts_share_the_cursor_of_the_player(feed: Feed) -> None:
    trace = recorded()
    page = feed(data_of(trace))
    ends = list(accumulate(events_of(entry) for entry in trace.rounds))
    seek(page, 0)
    assert page.locator(".ch-unmarked").count() == 1
    seen = []
    for round_ in (0, len(ends) // 2, len(ends) - 1):
        seek(page, ends[round_])
        seen.append(page.evaluate(MARKS))
    assert page.locator(".ch-unmarked").count() == 0
    for chart in range(2):
        first, middle, last = (places[chart] for places in seen)
        assert first < middle < last
        assert last - first > 0.4
    # A click on a chart seeks the player.
    chart = page.locator(".ch-acceptance svg")
    size = chart.bounding_box()
    place = {"x": seen[1][0] * size["width"], "y": size["height"] / 2}
    chart.click(position=place)
    next_frame(page)
    assert int(page.locator('[data-testid="seek"]').input_value()) == ends[len(ends) // 2]


# Steps to the next round; once it is announced, takes three more steps within its second.
STEPS = """async (step) => {
  const press = () => document.querySelector(step).click();
  const frame = () => new Promise(requestAnimationFrame);
  const said = () => [...document.querySelectorAll('[aria-live]')]
    .map((each) => each.textContent).find((text) => text.startsWith('Round 1: '));
  press();
  while (!said()) await frame();
  const first = said();
  for (let more = 0; more < 3; more += 1) {
    press();
    await frame();
  }
  return first;
}"""


def test_rounds_are_announced_at_most_once_a_second(feed: Feed) -> None:
    trace = recorded()
    page = feed(data_of(trace))
    seek(page, 0)

    def hear(words: str) -> None:
        page.wait_for_function(
            "words => [...document.querySelectorAll('[aria-live]')]"
            ".some((each) => each.textContent.startsWith(words))",
            arg=words,
        )

    first = trace.rounds[0]
    said = page.evaluate(STEPS, '[data-testid="step-round"]')
    assert said.startswith(f"Round 1: {first.num_accepted} of {first.num_drafted} accepted")
    emitted = sum(len(entry.emitted) for entry in trace.rounds[1:4])
    hear(f"Rounds 2 to 4: {emitted} tokens.")


def test_the_window_of_times_follows_the_cursor_to_the_start(feed: Feed) -> None:
    page = feed(data_of(repeated(recorded(), 4)))
    first = ".ch-times .ch-bottom text >> nth=0"
    assert page.text_content(first) != "round 1"
    seek(page, 0)
    assert page.text_content(first) == "round 1"
    assert page.is_hidden(".ch-times .ch-now-slot")


def test_kinds_of_time_are_named_by_their_colours(feed: Feed) -> None:
    page = feed(data_of(recorded()))
    pairs = page.eval_on_selector_all(
        ".ch-times .entry, .lanes .entry",
        "all => all.map(e => [e.textContent, getComputedStyle(e.firstChild).backgroundColor])",
    )
    names = {name: {colour for word, colour in pairs if word == name} for name, _ in pairs}
    assert {"draft", "target", "other"} < set(names)
    assert all(len(colours) == 1 for colours in names.values())


def throughput(**changes: Any) -> JsonObject:
    data = data_of(recorded())
    chart = data["charts"]["throughput"]
    assert chart is not None
    return {**data, "charts": {"throughput": {**chart, **changes}}}


@pytest.mark.parametrize(("factor", "drawn"), [(1.02, False), (1.2, True), (0.8, True)])
def test_the_measured_target_alone_has_a_separate_line(
    feed: Feed, factor: float, drawn: bool
) -> None:
    target = throughput()["charts"]["throughput"]["target"]
    page = feed(throughput(measured_target=factor * target))
    names = page.text_content(f"{THROUGHPUT} svg")
    assert bool(re.search(r"target alone.*, measured \d", names)) == drawn
    display = page.eval_on_selector(f"{THROUGHPUT} .ch-faint", "e => getComputedStyle(e).display")
    assert (display != "none") == drawn
    assert "× target alone (step costs)" in names
    assert "step costs" in words(page, f"{THROUGHPUT} .ch-caption")


# How far each label of a curve reaches out of the chart, in pixels.
OUTSIDE = """(chart) => {
  const plot = document.querySelector(`${chart} .ch-plot`).getBoundingClientRect();
  return [...document.querySelectorAll(`${chart} .ch-labels text`)].filter((e) => e.textContent)
    .map((each) => each.getBoundingClientRect())
    .map(({left, right}) => Math.max(plot.left - left, right - plot.right));
}"""


@pytest.mark.parametrize(("width", "short"), [(360, True), (1140, False)])
def test_labels_of_curves_are_inside_the_chart(feed: Feed, width: int, short: bool) -> None:
    target = throughput()["charts"]["throughput"]["target"]
    page = feed(throughput(measured_target=1.05 * target), width=width)
    assert max(page.evaluate(OUTSIDE, THROUGHPUT)) <= 0
    names = page.text_content(f"{THROUGHPUT} svg")
    assert bool(re.search(r"target alone \d.*, measured \d", names)) == short
    assert bool(re.search(r"target alone: calculated \d.*, measured \d", names)) != short


def test_doubtful_step_costs_are_reported(feed: Feed) -> None:
    busy = "The machine was busy. Press “Measure step costs again” under “The pair”."
    page = feed(throughput(doubt="The machine was busy."))
    assert busy in words(page, f"{THROUGHPUT} .ch-caption")
    feed(throughput(doubt=None), page)
    page.wait_for_function(  # charts update twice a second
        "([caption, busy]) => !document.querySelector(caption).innerText"
        ".replaceAll('\\u00a0', ' ').includes(busy)",
        arg=[f"{THROUGHPUT} .ch-caption", busy],
    )
    assert "step costs" in words(page, f"{THROUGHPUT} .ch-caption")


def test_a_stopped_run_is_a_hollow_point(feed: Feed) -> None:
    point = throughput()["charts"]["throughput"]["points"][0]
    page = feed(throughput(points=[point, {**point, "current": False, "partial": True}]))
    styles = page.eval_on_selector_all(
        f"{THROUGHPUT} .ch-point",
        "all => all.map(e => getComputedStyle(e, '::before'))"
        ".map(s => [s.borderStyle, parseFloat(s.width)])",
    )
    (whole, size), (partial, smaller) = styles
    assert (whole, partial) == ("solid", "dashed")
    assert smaller < size
    assert "stopped" in page.get_attribute(f"{THROUGHPUT} .ch-partial", "aria-label")


def test_until_timed_the_lanes_use_step_costs(feed: Feed) -> None:
    costs = {"target": 0.01, "round": {"draft": 0.005, "verify": 0.012, "other": 0.001}}
    data = {**making(data_of(recorded())), "lanes": None, "step_costs": costs}
    page = feed(data)
    page.click(LIVE)
    next_frame(page)
    assert words(page, RESULT) == "both lanes: from step costs, not measured yet"
    rounds = data["rounds"]["items"]
    assert words(page, COUNT).split()[0] == str(int(len(rounds) * 1.8))
    feed({**data, "step_costs": {**costs, "round": None}}, page)
    assert words(page, RESULT) == "target alone: from step costs, not measured yet"
    seconds = sum(sum(each["times"].values()) for each in rounds)
    assert words(page, COUNT).split()[0] == str(int(seconds / 0.01))
    feed({**data, "step_costs": None}, page)
    assert words(page, NOTE) == "measured after the run"
    assert words(page, RESULT) == ""


# Theory and measurement


def test_estimates_share_an_axis(feed: Feed) -> None:
    data = data_of(recorded())
    estimates = data["charts"]["agreement"]["estimates"]
    page = feed(data)
    chart = page.locator(".ch-agreement")
    dots = chart.locator(".ch-agree-dots circle")
    places = [float(dot.get_attribute("cx")) for dot in dots.all()]
    values = [each["value"] for each in estimates]
    assert len(places) == len(values) == 3
    scale = (places[1] - places[0]) / (values[1] - values[0])
    for place, value in zip(places, values, strict=True):
        assert place == pytest.approx(places[0] + scale * (value - values[0]), abs=0.01)
    band = chart.locator(".ch-agree-band")
    low, width = (float(band.get_attribute(name)) for name in ("x", "width"))
    forecast = estimates[0]
    assert low == pytest.approx(places[0] + scale * (forecast["low"] - values[0]), abs=0.01)
    assert width == pytest.approx(scale * (forecast["high"] - forecast["low"]), abs=0.01)
    assert data["charts"]["agreement"]["words"] == chart.locator(".ch-caption").inner_text()


@pytest.mark.parametrize(("value", "shown"), [(0.9, True), (0.01, False)])
def test_break_even_is_a_line_if_it_is_in_view(feed: Feed, value: float, shown: bool) -> None:
    data = data_of(recorded())
    page = feed({**data, "charts": {**data["charts"], "break_even": value}})
    chart = page.locator(".ch-acceptance")
    assert chart.locator(".ch-alone:not(.ch-none)").count() == int(shown)
    assert f"{value:.2f}" in chart.locator(".ch-caption").inner_text()

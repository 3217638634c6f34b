"""The roofline chart, with all and with missing step costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.player.replay import replay_html
from specviz.record.step_costs import PassBytes, StepCosts
from tests.browser.replay_files import opener
from tests.traces import full_trace, make_costs

CHART = ".ch-roofline"
# A target step takes 10 ms, 9 of them for reading; a draft step 1 ms, half of it for reading.
COSTS = replace(
    make_costs(extra=0.0003),
    bandwidth=24e9,
    target_reads=PassBytes(weights=216_000_000, cache=0),
    draft_reads=PassBytes(weights=12_000_000, cache=0),
    target_errors=(0.1,) * 17,
    draft_errors=(0.1,) * 3,
)
HEIGHTS = """(chart) => {
  const at = (each, name) => Number(each.getAttribute(name));
  const dots = [...chart.querySelectorAll('.ch-pass-dots circle')].map((each) => at(each, 'cy'));
  const floors = [...chart.querySelectorAll('.ch-floor')].map((each) => at(each, 'y1'));
  const zero = at(chart.querySelector('.ch-grid line'), 'y1');
  return [...dots, ...floors].map((each) => (zero - each) / (zero - dots[0]));
}"""
SLOT = """(chart) => {
  const dots = [...chart.querySelectorAll('.ch-pass-dots circle')];
  const [first, second] = dots.map((each) => Number(each.getAttribute('cx')));
  return second - first;
}"""


@pytest.fixture
def chart(browser: Any, tmp_path: Path) -> Iterator[Any]:
    with opener(browser, tmp_path) as open_file:

        def show(costs: StepCosts | None, **options: Any) -> Any:
            page = open_file(replay_html(replace(full_trace(), step_costs=costs)), **options)
            page.keyboard.press("End")
            page.wait_for_selector(f"{CHART} {'circle' if costs else '.ch-empty'}")
            return page.locator(CHART)

        yield show


def test_passes_are_drawn_at_their_times_above_the_floor(chart: Any) -> None:
    shown = chart(COSTS)
    heights = shown.evaluate(HEIGHTS)
    passes = [1 + 0.03 * more for more in range(17)]
    assert heights == pytest.approx([*passes, 0.1, 0.9, 0.05], abs=0.02)
    assert shown.locator(".ch-own").count() == 1
    text = shown.inner_text().replace("\u00a0", " ")
    assert "A target step reaches 90.0 % of the memory bandwidth of 24 GB/s" in text
    assert "free up to γ 3" in text
    assert "reading the bytes of a step: 9.0 ms" in text
    band = float(shown.locator(".ch-free").get_attribute("width"))
    assert band == pytest.approx(4 * shown.evaluate(SLOT), abs=0.5)  # over one to four tokens


def test_the_tooltip_of_a_pass_has_its_numbers(chart: Any) -> None:
    shown = chart(COSTS)
    shown.locator("circle >> nth=0").hover(force=True)
    note = shown.locator(".ch-tip").inner_text().replace("\u00a0", " ")
    assert note == (
        "1 token: 10 ms ± 10 %, 90 % of the bandwidth\n"
        "draft step: 1.0 ms ± 10 %, 50 % of the bandwidth"
    )


def test_without_a_bandwidth_there_is_no_floor_in_chart_and_caption(chart: Any) -> None:
    shown = chart(make_costs(extra=0.002))
    text = shown.inner_text()
    assert "was not measured" in text
    assert "verification is not free at any γ" in text
    assert "reading" not in text
    assert shown.locator(".ch-floor:visible").count() == 0


def test_without_step_costs_it_has_a_placeholder(chart: Any) -> None:
    shown = chart(None)
    assert "when the step costs have been measured" in shown.inner_text()
    assert shown.locator("circle:visible").count() == 0


@pytest.mark.parametrize("width", [1440, 1024, 420])
def test_its_text_stays_inside_the_card(chart: Any, width: int) -> None:
    shown = chart(COSTS, width=width)
    assert shown.evaluate("each => each.scrollWidth <= each.clientWidth")
    inside = """(chart) => [...chart.querySelectorAll('text')].every((each) => {
      const [box, card] = [each, chart].map((one) => one.getBoundingClientRect());
      return box.left >= card.left && box.right <= card.right;
    })"""
    assert shown.evaluate(inside)

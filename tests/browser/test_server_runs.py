"""A serving engine's answer in the player: one lane, tokens without text, unreported values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.figures.server_figures import server_metrics
from specviz.player.payload import RunStatus
from specviz.player.replay import comparison_replay_html, replay_html
from specviz.player.server_payload import server_payload
from tests.browser.reading import ROUND, figure, next_frame, text_of
from tests.browser.replay_files import Opener, opener
from tests.browser.test_player_words import blank
from tests.player.races import thrifty
from tests.record.server_traces import server_trace, timed, undivided, without_rounds

__all__ = ["blank"]  # a fixture

CARD = '[data-testid="verdict-card"]'
# Presses the button until the end, and lets each step be drawn; returns the number of steps.
STEPS = """async () => {
  const seek = document.querySelector('[data-testid="seek"]');
  let count = 0;
  for (; seek.value !== seek.max && count < 60; count += 1) {
    document.querySelector('[data-testid="step-token"]').click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  return count;
}"""
LANES = '[data-testid="lanes"] .lane:not(.foot):not([hidden])'


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def answer(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page at the end of an answer."""
    with opener(browser, tmp_path_factory.mktemp("answer")) as opened:
        yield at_end(opened, replay_html(server_trace()))


def at_end(open_file: Opener, html: str, **options: Any) -> Any:
    page = open_file(html, **options)
    page.keyboard.press("End")
    page.wait_for_function(
        "() => { const seek = document.querySelector('[data-testid=seek]');"
        " return seek.value === seek.max; }"
    )
    return page


def test_rounds_have_fates_and_no_invented_text(answer: Any) -> None:
    page = answer
    chips = page.locator(f"{ROUND}[data-index='1'] .chip")
    states = chips.evaluate_all("all => all.map(each => each.dataset.state)")
    assert states == ["accepted"] * 3 + ["rejected", "discarded", "recovered"]
    assert chips.all_inner_texts()[3:5] == ["", ""]
    assert text_of(page).endswith(" w14 w15")
    assert page.locator(LANES).count() == 1
    assert page.locator(".ch-card:visible").count() == 3
    assert "left out" in page.inner_text(".ch-left-out")
    assert (figure(page, "tau"), figure(page, "draft-acceptance-rate")) == (3.5, 0.5)


def test_the_token_of_the_prompt_is_not_a_round(answer: Any) -> None:
    page = answer
    assert page.locator(f"{ROUND} .number").all_inner_texts() == ["–", "1", "2", "3", "4"]
    assert page.inner_text(".where") == "round 4 of 4"
    assert "4 rounds" in page.inner_text(".sum-headline")
    ticks = page.locator(".ch-times .ch-bottom text")
    assert [each for each in ticks.all_text_contents() if each] == ["round 1", "4"]
    page.click(f"{ROUND}[data-index='0'] .chip")
    next_frame(page)
    text = page.inner_text(CARD)
    assert "outside the rounds" in text
    assert "No candidates were drafted for it" in text


def test_the_card_names_known_and_unreported_values(answer: Any) -> None:
    page = answer
    page.click(f"{ROUND}[data-index='1'] .chip >> nth=3")
    next_frame(page)
    text = page.inner_text(CARD)
    assert "round 1, candidate 4 of 5" in text
    assert "rejected: 3 of 5 candidates of this round were accepted" in text
    assert "0.120 s after the request" in text
    assert "does not report the draft’s and the target’s probabilities" in text
    assert page.locator(f"{CARD} .vd-acceptance").is_hidden()
    page.click(f"{ROUND}[data-index='1'] .chip >> nth=0")
    next_frame(page)
    assert "The engine gives this token 78" in page.inner_text(CARD)


def test_the_chart_by_position_agrees_with_the_figures(open_file: Opener) -> None:
    """A round that drafted two tokens, both accepted, counts at the third position, untested."""
    trace = server_trace((None, (5, 3), (2, 2), (5, 5), (5, 0)))
    page = at_end(open_file, replay_html(trace))
    found = server_metrics(trace).alpha_by_position
    shares = ", ".join(f"{i}: {each:.0%}" for i, each in enumerate(found, 1) if each is not None)
    label = page.locator(".ch-places svg").get_attribute("aria-label").replace("\u00a0%", "%")
    assert label.endswith(
        f"Share accepted of those accepted at the previous position, by position. {shares}."
    )
    assert "3: 67%" in shares  # as a share of tested it would be 100 %
    assert "accepted one position earlier" in page.inner_text(".ch-places")
    ours = open_file(replay_html(thrifty()))
    ours.keyboard.press("End")
    next_frame(ours)
    assert "accepted at this position / tested" in " ".join(ours.inner_text(".ch-places").split())


def test_every_step_can_be_played(open_file: Opener) -> None:
    for trace in (server_trace(), undivided(server_trace()), without_rounds(server_trace())):
        page = open_file(replay_html(trace))
        page.keyboard.press("Home")
        assert 0 < page.evaluate(STEPS) < 60
        assert text_of(page).endswith(" w14 w15")


def test_pieces_without_rounds_are_called_pieces(open_file: Opener) -> None:
    page = at_end(open_file, replay_html(without_rounds(server_trace())))
    assert page.inner_text(".rounds h2") == "Pieces, as received"
    assert "piece 5 of 5" in page.inner_text(".where")
    assert page.locator(".chip[data-state='unreported']:visible").count() > 10
    assert page.locator(".ch-card:visible").count() == 1


def test_a_timed_target_alone_has_a_lane(open_file: Opener) -> None:
    page = at_end(open_file, replay_html(timed(server_trace())))
    assert page.locator(LANES).count() == 2
    assert "mean pace of 2 other answers" in page.inner_text('[data-testid="lanes"]')


def test_a_race_with_another_engine_has_no_winner(open_file: Opener) -> None:
    html = comparison_replay_html(["ours", "theirs"], [thrifty(), server_trace()], verdict="So.")
    page = open_file(html)
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('[data-testid=race-result]').textContent")
    assert "No winner" in page.inner_text('[data-testid="race-result"]')
    assert page.locator(".first:visible").count() == 0


def test_a_later_report_of_the_engine_replaces_its_pieces(blank: Any) -> None:
    whole = server_trace()
    so_far = replace(
        whole, rounds=tuple(replace(e, drafted=None, accepted=None) for e in whole.rounds)
    )
    found = blank.evaluate(
        """([before, after]) => {
          const first = recordingOf('x', before);
          first.append(before.from, before.items);
          const same = recordingOf('x', before);
          const late = recordingOf('x', after);
          late.append(after.from, after.items);
          const again = recordingOf('x', after);
          return [first === same, late === first, again === late, late.rounds[1].candidates.length];
        }""",
        [sent_rounds(so_far, growing=True), sent_rounds(whole, growing=False)],
    )
    assert found == [True, False, True, 5]


def sent_rounds(trace: Any, *, growing: bool) -> Any:
    status = RunStatus(id="x", state="running", label="")
    return server_payload(trace, status, growing=growing)["rounds"]

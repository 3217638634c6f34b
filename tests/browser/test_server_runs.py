"""The answer of another engine in the player: nameless fates, one lane, and what is not told."""

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
from tests.record.server_traces import server_trace, timed, undivided, untold

__all__ = ["blank"]  # a fixture

CARD = '[data-testid="verdict-card"]'
# Presses the button so often, and lets each step be drawn.
STEPS = """async (count) => {
  for (let step = 0; step < count; step += 1) {
    document.querySelector('[data-testid="step-token"]').click();
    await new Promise((done) => requestAnimationFrame(done));
  }
}"""
LANES = '[data-testid="lanes"] .lane:not(.foot):not([hidden])'


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    with opener(browser, tmp_path) as opened:
        yield opened


def at_end(open_file: Opener, html: str, **options: Any) -> Any:
    page = open_file(html, **options)
    page.keyboard.press("End")
    page.wait_for_function(
        "() => { const seek = document.querySelector('[data-testid=seek]');"
        " return seek.value === seek.max; }"
    )
    return page


def test_rounds_have_fates_and_no_invented_words(open_file: Opener) -> None:
    page = at_end(open_file, replay_html(server_trace()))
    chips = page.locator(f"{ROUND}[data-index='1'] .chip")
    states = chips.evaluate_all("all => all.map(each => each.dataset.state)")
    assert states == ["accepted"] * 3 + ["rejected", "discarded", "recovered"]
    assert chips.all_inner_texts()[3:5] == ["", ""]
    assert text_of(page).endswith(" w14 w15")
    assert page.locator(LANES).count() == 1
    assert page.locator(".ch-card:visible").count() == 3
    assert "left out" in page.inner_text(".ch-left-out")
    assert (figure(page, "tau"), figure(page, "draft-acceptance-rate")) == (3.5, 0.5)


def test_a_press_says_what_is_known_and_what_the_engine_keeps_to_itself(
    open_file: Opener,
) -> None:
    page = at_end(open_file, replay_html(server_trace()))
    page.click(f"{ROUND}[data-index='1'] .chip >> nth=3")
    next_frame(page)
    told = page.inner_text(CARD)
    assert "round 2, candidate 4 of 5" in told
    assert "rejected: 3 of 5 candidates of this round were accepted" in told
    assert "It came 0.120 s after the request" in told
    assert "keeps to itself what draft and target gave it" in told
    assert page.locator(f"{CARD} .vd-acceptance").is_hidden()
    page.click(f"{ROUND}[data-index='1'] .chip >> nth=0")
    next_frame(page)
    assert "The engine gives it 78" in page.inner_text(CARD)


def test_the_chart_by_position_is_of_the_same_counts_as_the_figures(open_file: Opener) -> None:
    """A round that drafted two and gave all of them was not tested at its third position."""
    trace = server_trace((None, (5, 3), (2, 2), (5, 5), (5, 0)))
    page = at_end(open_file, replay_html(trace))
    found = server_metrics(trace).alpha_by_position
    shares = ", ".join(f"{i}: {each:.0%}" for i, each in enumerate(found, 1) if each is not None)
    said = page.locator(".ch-places svg").get_attribute("aria-label").replace("\u00a0%", "%")
    assert said.endswith(
        f"Accepted of those accepted at the position before, by position. {shares}."
    )
    assert "3: 67%" in shares  # of tested it would be 100 %
    assert "accepted at the position before" in page.inner_text(".ch-places")
    ours = open_file(replay_html(thrifty()))
    ours.keyboard.press("End")
    next_frame(ours)
    assert "accepted / tested" in " ".join(ours.inner_text(".ch-places").split())


def test_every_step_of_it_can_be_played(open_file: Opener) -> None:
    for trace in (server_trace(), undivided(server_trace()), untold(server_trace())):
        page = open_file(replay_html(trace))
        page.keyboard.press("Home")
        page.evaluate(STEPS, 60)
        assert text_of(page).endswith(" w14 w15")


def test_pieces_of_a_server_that_tells_no_rounds_are_called_so(open_file: Opener) -> None:
    page = at_end(open_file, replay_html(untold(server_trace())))
    assert page.inner_text(".rounds h2") == "Pieces, as they came"
    assert "piece 5 of 5" in page.inner_text(".where")
    assert page.locator(".chip[data-state='untold']:visible").count() > 10
    assert page.locator(".ch-card:visible").count() == 1


def test_the_target_alone_stands_beside_it_where_it_was_timed(open_file: Opener) -> None:
    page = at_end(open_file, replay_html(timed(server_trace())))
    assert page.locator(LANES).count() == 2
    assert "at its mean pace in 2 other answers" in page.inner_text('[data-testid="lanes"]')


def test_a_race_with_another_engine_has_no_winner(open_file: Opener) -> None:
    html = comparison_replay_html(["ours", "theirs"], [thrifty(), server_trace()], verdict="So.")
    page = open_file(html)
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('[data-testid=race-result]').textContent")
    assert "No lane is called the fastest" in page.inner_text('[data-testid="race-result"]')
    assert page.locator(".first:visible").count() == 0


def test_what_the_engine_tells_at_its_end_takes_the_place_of_what_came(
    blank: Any,
) -> None:
    whole = server_trace()
    so_far = replace(
        whole, rounds=tuple(replace(e, drafted=None, accepted=None) for e in whole.rounds)
    )
    found = blank.evaluate(
        """([before, after]) => {
          const first = recordingOf('x', before);
          first.append(before.from, before.items);
          const same = recordingOf('x', before);
          const told = recordingOf('x', after);
          told.append(after.from, after.items);
          const again = recordingOf('x', after);
          return [first === same, told === first, again === told, told.rounds[1].candidates.length];
        }""",
        [sent_rounds(so_far, growing=True), sent_rounds(whole, growing=False)],
    )
    assert found == [True, False, True, 5]


def sent_rounds(trace: Any, *, growing: bool) -> Any:
    status = RunStatus(id="x", state="running", label="")
    return server_payload(trace, status, growing=growing)["rounds"]

"""The verdict card: its sentences with the trace's numbers, what-if draws, and its position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from specviz.record.trace import Candidate, Round, RunConfig, Trace
from tests.browser.conftest import Demo
from tests.browser.long_runs import events_of, recorded, repeated
from tests.browser.reading import ROUND, next_frame, seek
from tests.traces import make_candidate, make_round, make_trace

CARD = '[data-testid="verdict-card"]'
SENTENCE = f"{CARD} .vd-say"
WHAT_IF = f"{CARD} .vd-if"
DRAW = f"{CARD} [role=slider]"
BACK = f"{CARD} button:has-text('back to the real draw')"
INVITATION = "What if the draw had been different? Drag it."


@pytest.fixture(scope="module")
def trace() -> Trace:
    return recorded()


@pytest.fixture(scope="module")
def page(demo: Demo, browser: Any, trace: Trace) -> Iterator[Any]:
    """The recorded run at its end."""
    context = browser.new_context(viewport={"width": 1140, "height": 900})
    opened = context.new_page()
    opened.goto(demo.show("recorded", trace, state="done"))
    opened.wait_for_selector(ROUND)
    next_frame(opened)
    yield opened
    context.close()


def choose(page: Any, trace: Trace, index: int, place: int) -> None:
    """Click a token of a finished round."""
    ends = list(accumulate(events_of(entry) for entry in trace.rounds))
    seek(page, ends[index])
    page.click(f'{ROUND}[data-index="{index}"] [data-place="{place}"]')
    next_frame(page)


def plain_text(page: Any, selector: str) -> str:
    return page.inner_text(selector).replace("\u00a0", " ")


def chip(text: str) -> str:
    return text.replace(" ", "·").replace("\n", "⏎")


def percent(value: float) -> str:
    """Return a share as on the card; a value below 1 is never rounded to 100 %."""
    if 0.995 < value < 1:
        return f"{int(1000 * value) / 10:.1f} %"
    return f"{100 * value:.{1 if value < 0.1 else 0}f} %"


def two_digits(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1)


def first_rejected(entry: Round) -> int:
    return [each.verdict for each in entry.candidates].index("rejected")


def distinguishable(entry: Round) -> bool:
    """Return whether the odds and the draw of the rejection differ in two digits."""
    for each in entry.candidates:
        if each.verdict == "rejected":
            shown = {two_digits(each.odds), two_digits(each.uniform)}
            return len(shown) == 2 and min(each.draft_prob, each.target_prob) > 0.001
    return False


def rejections(trace: Trace) -> list[Round]:
    return [entry for entry in trace.rounds if distinguishable(entry)]


def bonus_round(trace: Trace) -> Round:
    return next(entry for entry in trace.rounds if entry.extra_kind == "bonus")


# The sentence


def test_the_sentence_of_a_rejected_token(page: Any, trace: Trace) -> None:
    assert len(rejections(trace)) > 10
    for entry in rejections(trace)[:6]:
        place = first_rejected(entry)
        failed = entry.candidates[place]
        choose(page, trace, entry.index, place)
        assert entry.extra is not None
        assert plain_text(page, SENTENCE) == (
            f"The draft gave {chip(failed.text)} {percent(failed.draft_prob)}, "
            f"the target {percent(failed.target_prob)}: "
            f"the acceptance probability, target / draft, is {two_digits(failed.odds)}. "
            f"The draw was {two_digits(failed.uniform)}: rejected. "
            f"Its replacement was drawn from the residual distribution: {chip(entry.extra.text)}"
        )
        shown = page.get_attribute(DRAW, "aria-valuenow")
        assert float(shown) == failed.uniform


def test_the_sentence_of_an_accepted_token(page: Any, trace: Trace) -> None:
    entry = bonus_round(trace)
    for place, each in enumerate(entry.candidates):
        choose(page, trace, entry.index, place)
        sentence = plain_text(page, SENTENCE)
        assert sentence.startswith(f"The draft gave {chip(each.text)} ")
        assert sentence.endswith("accepted.")
        assert ("so it is always" in sentence) == (each.target_prob >= each.draft_prob)


def test_the_sentence_of_a_discarded_token(page: Any, trace: Trace) -> None:
    entry = next(r for r in rejections(trace) if r.num_tested < r.num_drafted)
    after = entry.candidates[-1]
    choose(page, trace, entry.index, entry.num_drafted - 1)
    sentence = plain_text(page, SENTENCE)
    assert sentence.startswith(
        f"Drafted after {chip(entry.candidates[first_rejected(entry)].text)}, which was rejected."
    )
    assert "discarded untested" in sentence
    assert percent(after.draft_prob) in sentence
    assert plain_text(page, WHAT_IF) == "What if it had been tested? Drag the draw."
    page.focus(DRAW)
    page.keyboard.press("Home")  # a draw of 0 accepts any token with target > 0
    next_frame(page)
    assert plain_text(page, WHAT_IF) == (
        "Had it been tested with a draw of .00, it would have been accepted."
    )


def test_the_sentence_of_a_recovered_token(page: Any, trace: Trace) -> None:
    entry = rejections(trace)[0]
    failed, extra = entry.candidates[first_rejected(entry)], entry.extra
    assert extra is not None
    assert failed.insight is not None
    top = failed.insight.residual_top
    residual_prob = dict(zip(top.texts, top.probs, strict=True))[extra.text]
    choose(page, trace, entry.index, entry.num_drafted)
    assert plain_text(page, SENTENCE) == (
        f"{chip(extra.text)} was drawn from the residual distribution after "
        f"{chip(failed.text)} was rejected. Its probability there was {percent(residual_prob)}."
    )
    assert page.is_hidden(DRAW)


def test_the_sentence_of_a_bonus_token(page: Any, trace: Trace) -> None:
    entry = bonus_round(trace)
    assert entry.extra is not None
    choose(page, trace, entry.index, entry.num_drafted)
    assert plain_text(page, SENTENCE) == (
        f"All {entry.num_drafted} candidates were accepted, so the target adds a bonus token: "
        f"{chip(entry.extra.text)}, which it gave {percent(entry.extra.target_prob)}."
    )
    assert page.is_hidden(DRAW)


def test_the_columns_list_the_traces_alternatives(page: Any, trace: Trace) -> None:
    entry = rejections(trace)[0]
    insight = entry.candidates[first_rejected(entry)].insight
    choose(page, trace, entry.index, first_rejected(entry))
    listed = page.eval_on_selector_all(
        f"{CARD} .vd-columns .vd-column",
        "all => all.map(c => [...c.querySelectorAll('li:not(.vd-empty)')]"
        ".map(row => row.firstChild.textContent))",
    )
    assert insight is not None
    heads = page.locator(f"{CARD} .vd-columns .vd-column h4").all_inner_texts()
    assert heads[2].startswith("residual")
    assert "(target − draft)₊ sums to " in heads[2].replace("\u00a0", " ")
    assert heads[2].replace("\u00a0", " ").endswith("rescaled to 100 %")
    tops = (insight.draft_top, insight.target_top, insight.residual_top)
    for shown, top in zip(listed, tops, strict=True):
        assert shown[: len(top.texts)] == [chip(text) for text in top.texts]


# What-if draws


@pytest.fixture
def failed(page: Any, trace: Trace) -> Candidate:
    """A rejected candidate, shown on the card; not the last of its round."""
    entry = next(
        r
        for r in rejections(trace)
        if 0.2 < r.candidates[first_rejected(r)].odds < 0.8
        and first_rejected(r) < r.num_drafted - 1
    )
    choose(page, trace, entry.index, first_rejected(entry))
    return entry.candidates[first_rejected(entry)]


def current_draw(page: Any) -> tuple[float, str]:
    next_frame(page)
    value, valuetext = (
        page.get_attribute(DRAW, f"aria-{name}") for name in ("valuenow", "valuetext")
    )
    return float(value), valuetext.split(": ")[1]


def expected_verdict(candidate: Candidate, uniform: float) -> str:
    return "accepted" if uniform * candidate.draft_prob < candidate.target_prob else "rejected"


def test_keys_flip_the_verdict_at_the_odds(page: Any, failed: Candidate) -> None:
    page.focus(DRAW)
    steps = int((failed.uniform - failed.odds) / 0.01) + 3
    draws = []
    for key in (*["ArrowLeft"] * steps, "PageUp", "PageDown", "End", "ArrowDown", "Home"):
        page.keyboard.press(key)
        draws.append(current_draw(page))
    values = [value for value, _ in draws]
    stepped = [failed.uniform - 0.01 * (step + 1) for step in range(steps)]
    assert values[:steps] == pytest.approx(stepped)
    assert values[steps] == pytest.approx(stepped[-1] + 0.1)
    last = 1 - 2**-24
    assert values[-3:] == [last, pytest.approx(last - 0.01), 0]
    verdicts = [verdict for _, verdict in draws]
    assert {"accepted", "rejected"} == set(verdicts[:steps])
    assert verdicts == [expected_verdict(failed, value) for value in values]


def test_keys_of_one_frame_all_count(page: Any, failed: Candidate) -> None:
    page.eval_on_selector(
        DRAW,
        """(handle) => { for (let i = 0; i < 5; i++) handle.dispatchEvent(
          new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true})); }""",
    )
    assert current_draw(page)[0] == pytest.approx(failed.uniform - 0.05)


def test_dragging_flips_it_at_the_odds(page: Any, failed: Candidate) -> None:
    track = page.locator(f"{CARD} .vd-track")
    track.scroll_into_view_if_needed()
    box = track.bounding_box()
    height = box["y"] + box["height"] / 2
    edge = box["x"] + failed.odds * box["width"]
    page.mouse.move(box["x"] + failed.uniform * box["width"], height)
    page.mouse.down()
    draws = []
    for pixels in (40, 3, 1.5, -1.5, -3, -40, -1.5, 1.5):
        page.mouse.move(edge + pixels, height)
        draws.append(current_draw(page))
    page.mouse.up()
    verdicts = [verdict for _, verdict in draws]
    assert verdicts == ["rejected"] * 3 + ["accepted"] * 4 + ["rejected"]
    assert verdicts == [expected_verdict(failed, value) for value, _ in draws]
    assert draws[0][0] == pytest.approx(failed.odds + 40 / box["width"], abs=2 / box["width"])


def test_the_card_describes_the_what_if(page: Any, failed: Candidate) -> None:
    page.focus(DRAW)
    page.keyboard.press("Home")
    next_frame(page)
    assert plain_text(page, WHAT_IF) == (
        "With a draw of .00 it would have been accepted, "
        "and the next candidate would have been tested."
    )
    page.keyboard.press("End")
    next_frame(page)
    assert plain_text(page, WHAT_IF).endswith("it would still have been rejected.")
    assert failed.verdict == "rejected"


def test_back_to_the_real_draw(page: Any, failed: Candidate) -> None:
    assert page.is_hidden(BACK)
    page.focus(DRAW)
    page.keyboard.press("Home")
    next_frame(page)
    page.click(BACK)
    assert current_draw(page) == (failed.uniform, "rejected")
    assert page.is_hidden(BACK)
    assert plain_text(page, WHAT_IF) == INVITATION


def test_another_token_shows_its_own_draw(page: Any, trace: Trace, failed: Candidate) -> None:
    page.focus(DRAW)
    page.keyboard.press("Home")
    next_frame(page)
    page.click(f"{CARD} [aria-label='Next token']")
    value, _ = current_draw(page)
    assert value != failed.uniform
    assert value in {each.uniform for entry in trace.rounds for each in entry.candidates}
    assert page.is_hidden(BACK)


# Other rules


def one_hot(entry: Round) -> Round:
    """Return the round with one-hot distributions, as in greedy decoding."""
    likely = {"accepted": 1.0, "rejected": 0.0, "discarded": 0.0}
    certain = [
        replace(
            each,
            draft_prob=1.0,
            target_prob=likely[each.verdict],
            expected_acceptance=likely[each.verdict],
        )
        for each in entry.candidates
    ]
    return replace(entry, candidates=tuple(certain))


def test_the_sentences_of_a_greedy_run(demo: Demo, open_page: Callable[..., Any]) -> None:
    rounds = [one_hot(make_round(kind)) for kind in ("ar", "aa")]
    greedy = make_trace(rounds, config=RunConfig(gamma=2, temperature=0.0))
    page = open_page(demo.show("greedy", greedy, state="done"))
    page.wait_for_selector(ROUND)
    choose(page, greedy, 0, 1)
    assert plain_text(page, SENTENCE) == (
        "Greedy: the target’s likeliest token is ·w11; the draft proposed ·w11: rejected."
    )
    page.focus(DRAW)
    for key in ("Home", "End"):
        page.keyboard.press(key)
        assert current_draw(page)[1] == "rejected"
    choose(page, greedy, 1, 2)
    assert plain_text(page, SENTENCE).endswith(", its likeliest.")


def test_at_temperature_0_the_third_column_has_the_likeliest_token(
    demo: Demo, open_page: Callable[..., Any], trace: Trace
) -> None:
    greedy = replace(trace, config=replace(trace.config, temperature=0.0))
    page = open_page(demo.show("as greedy", greedy, state="done"))
    page.wait_for_selector(ROUND)
    entry = rejections(trace)[0]
    failed = entry.candidates[first_rejected(entry)]
    assert failed.insight is not None
    choose(page, greedy, entry.index, first_rejected(entry))
    rows = f"{CARD} .vd-of-rest li:not(.vd-empty) .vd-text"
    likeliest = failed.insight.target_top.texts[0]
    assert likeliest != failed.text
    assert page.locator(rows).all_text_contents() == [chip(likeliest)]
    assert page.inner_text(f"{CARD} .vd-of-rest h4").strip() == "target at temperature 0"


def test_the_sentences_of_a_lossy_run(demo: Demo, open_page: Callable[..., Any]) -> None:
    config = RunConfig(gamma=2, rule="over-accept", epsilon=0.2)
    accepted = make_candidate("a", token_id=10, uniform=0.75)  # accepted only because of ε
    rejected = make_candidate("r", token_id=11, uniform=0.9375)
    lossy = make_trace([replace(make_round("ar"), candidates=(accepted, rejected))], config=config)
    page = open_page(demo.show("lossy", lossy, state="done"))
    page.wait_for_selector(ROUND)
    choose(page, lossy, 0, 0)
    assert plain_text(page, SENTENCE) == (
        "The draft gave ·w10 50 %, the target 25 %; with ε = .20 added, "
        "the acceptance probability, (target + ε) / draft, is .90. The draw was .75: accepted."
    )
    choose(page, lossy, 0, 1)
    assert "The draw was .94: rejected." in plain_text(page, SENTENCE)
    page.focus(DRAW)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageDown")
    assert current_draw(page) == (pytest.approx(0.8275), "accepted")
    assert "lossy" in page.inner_text(".sv").lower()


# Position of the card


BESIDE = f"{CARD}.vd-beside"
MAIN = "document.querySelector('[data-testid=stMain]')"  # the element that Streamlit scrolls
TO_THE_TOP = f"{MAIN}.scrollTo(0, 0)"
SIZES = [(1440, 900), (1024, 768), (420, 860)]
PARTS = (1.0, 0.5, 0.001)  # of a long run: its last rounds, some in the middle, its first


def frames_of(page: Any, selector: str) -> list[dict[str, float]]:
    return page.eval_on_selector_all(
        selector, "all => all.map(each => each.getBoundingClientRect().toJSON())"
    )


def in_view(page: Any, frame: dict[str, float]) -> bool:
    size = page.viewport_size
    return (
        0 <= frame["top"] < frame["bottom"] <= size["height"]
        and 0 <= frame["left"] < frame["right"] <= size["width"]
    )


def assert_beside(page: Any, token: str) -> None:
    """Assert that the card is fully in view, close to its token, without overlap."""
    (card,) = frames_of(page, BESIDE)
    tokens = [each for each in frames_of(page, token) if in_view(page, each)]
    assert in_view(page, card)
    apart = [max(card["top"] - each["bottom"], each["top"] - card["bottom"]) for each in tokens]
    assert any(0 < each < 20 for each in apart), (card, tokens)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_card_and_token_are_both_in_view(
    demo: Demo, open_page: Callable[..., Any], trace: Trace, width: int, height: int
) -> None:
    long = repeated(trace, 20)
    page = open_page(demo.show("long", long, state="done"), width=width, height=height)
    page.wait_for_selector(ROUND)
    assert page.locator(BESIDE).count() == 0
    for part in PARTS:
        seek(page, part * sum(map(events_of, long.rounds)))
        page.locator(f"{ROUND} [data-place]").last.click()
        next_frame(page)
        assert_beside(page, ".rounds .selected")
        page.keyboard.press("Escape")
        next_frame(page)
        assert page.locator(BESIDE).count() == 0
        page.locator('[data-testid="text-pane"] [data-at]').last.click()
        next_frame(page)
        assert_beside(page, ".text-pane .selected")
        page.click(f"{BESIDE} [aria-label='Previous token']")
        next_frame(page)
        assert_beside(page, ".selected")
        page.click(f"{BESIDE} [aria-label='Close']")
        next_frame(page)
        assert page.locator(BESIDE).count() == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_playback_pauses_while_a_card_is_open(
    demo: Demo, open_page: Callable[..., Any], trace: Trace
) -> None:
    page = open_page(demo.show("plays", trace, state="recorded", tour="never"))
    page.wait_for_selector(f'{ROUND}[data-index="1"]')
    page.click(f'{ROUND}[data-index="0"] [data-place="0"]')
    next_frame(page)
    cursor = page.input_value('[data-testid="seek"]')
    page.wait_for_timeout(800)
    assert page.input_value('[data-testid="seek"]') == cursor
    page.keyboard.press("Escape")
    page.wait_for_function(
        "cursor => Number(document.querySelector('[data-testid=seek]').value) > cursor",
        arg=int(cursor),
    )


def test_the_wheel_scrolls_the_page_at_the_end_of_a_pane(page: Any, trace: Trace) -> None:
    seek(page, sum(map(events_of, trace.rounds)))
    for pane in (".text-pane .scroll", ".rounds .scroll"):
        page.evaluate(TO_THE_TOP)
        (frame,) = frames_of(page, pane)
        page.mouse.move(frame["x"] + 40, frame["y"] + 40)
        page.mouse.wheel(0, 200)
        page.wait_for_function(f"() => {MAIN}.scrollTop > 100")
    page.evaluate(TO_THE_TOP)

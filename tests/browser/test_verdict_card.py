"""The verdict card's sentences, with the trace's numbers, for each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.record.trace import Round, RunConfig, Trace
from tests.browser.fed_player import Feed, data_of, feed
from tests.browser.reading import next_frame
from tests.browser.verdict_cards import (
    CARD,
    DRAW,
    SENTENCE,
    WHAT_IF,
    bonus_round,
    chip,
    choose,
    current_draw,
    first_rejected,
    page,
    percent,
    plain_text,
    rejections,
    trace,
    two_digits,
)
from tests.traces import make_candidate, make_round, make_trace

__all__ = ["feed", "page", "trace"]  # fixtures


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
            "The recovered token was drawn from the residual distribution: "
            f"{chip(entry.extra.text)}"
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
    assert plain_text(page, WHAT_IF) == "What if this token had been tested? Drag the draw."
    page.focus(DRAW)
    page.keyboard.press("Home")  # a draw of 0 accepts any token with target > 0
    next_frame(page)
    assert plain_text(page, WHAT_IF) == (
        "Had it been tested with a draw of 0.00, it would have been accepted."
    )


def extra_sentence(page: Any, trace: Trace, entry: Round) -> str:
    """Choose the round's extra token, which has no draw to change; return its sentence."""
    choose(page, trace, entry.index, entry.num_drafted)
    assert page.is_hidden(DRAW)
    return plain_text(page, SENTENCE)


def test_the_sentence_of_a_recovered_token(page: Any, trace: Trace) -> None:
    entry = rejections(trace)[0]
    failed, extra = entry.candidates[first_rejected(entry)], entry.extra
    assert extra is not None
    assert failed.insight is not None
    top = failed.insight.residual_top
    residual_prob = dict(zip(top.texts, top.probs, strict=True))[extra.text]
    assert extra_sentence(page, trace, entry) == (
        f"The recovered token {chip(extra.text)} was drawn from the residual distribution after "
        f"{chip(failed.text)} was rejected. Its probability there was {percent(residual_prob)}."
    )


def test_the_sentence_of_a_bonus_token(page: Any, trace: Trace) -> None:
    entry = bonus_round(trace)
    assert entry.extra is not None
    assert extra_sentence(page, trace, entry) == (
        f"All {entry.num_drafted} candidates were accepted, so the target adds a bonus token: "
        f"{chip(entry.extra.text)}, which it gave {percent(entry.extra.target_prob)}."
    )


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
    assert "target − draft where positive" in heads[2].replace("\u00a0", " ")
    assert heads[2].replace("\u00a0", " ").endswith("rescaled to 100 %")
    tops = (insight.draft_top, insight.target_top, insight.residual_top)
    for shown, top in zip(listed, tops, strict=True):
        assert shown[: len(top.texts)] == [chip(text) for text in top.texts]


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


def test_the_sentences_of_a_greedy_run(feed: Feed) -> None:
    rounds = [one_hot(make_round(kind)) for kind in ("ar", "aa")]
    greedy = make_trace(rounds, config=RunConfig(gamma=2, temperature=0.0))
    page = feed(data_of(greedy))
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
    feed: Feed, trace: Trace
) -> None:
    greedy = replace(trace, config=replace(trace.config, temperature=0.0))
    page = feed(data_of(greedy))
    entry = rejections(trace)[0]
    failed = entry.candidates[first_rejected(entry)]
    assert failed.insight is not None
    choose(page, greedy, entry.index, first_rejected(entry))
    rows = f"{CARD} .vd-of-rest li:not(.vd-empty) .vd-text"
    likeliest = failed.insight.target_top.texts[0]
    assert likeliest != failed.text
    assert page.locator(rows).all_text_contents() == [chip(likeliest)]
    assert page.inner_text(f"{CARD} .vd-of-rest h4").strip() == "target at temperature 0"


def test_the_sentences_of_a_lossy_run(feed: Feed) -> None:
    config = RunConfig(gamma=2, rule="over-accept", epsilon=0.2)
    accepted = make_candidate("a", token_id=10, uniform=0.75)  # accepted only because of ε
    rejected = make_candidate("r", token_id=11, uniform=0.9375)
    lossy = make_trace([replace(make_round("ar"), candidates=(accepted, rejected))], config=config)
    page = feed(data_of(lossy))
    choose(page, lossy, 0, 0)
    assert plain_text(page, SENTENCE) == (
        "The draft gave ·w10 50 %, the target 25 %; with ε = 0.20 added, "
        "the acceptance probability, (target + ε) / draft, is 0.90. The draw was 0.75: accepted."
    )
    choose(page, lossy, 0, 1)
    assert "The draw was 0.94: rejected." in plain_text(page, SENTENCE)
    page.focus(DRAW)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("PageDown")
    assert current_draw(page) == (pytest.approx(0.8275), "accepted")
    assert "lossy" in page.inner_text(".sv").lower()

"""Token text is shown literally: markup, bidi and invisible characters, very long tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from specviz.record.trace import Alternatives, Candidate, Insight, Prompt, Round, RunConfig, Trace
from tests.browser.conftest import Demo, Server
from tests.browser.contexts import Contexts
from tests.browser.fed_player import Feed, blank_page, data_of, feed, send
from tests.browser.reading import (
    ROUND,
    TEXT_TOKENS,
    next_frame,
    seek,
    settled_box,
    text_of,
    tour_to_question,
)
from tests.traces import make_round, make_trace
from tests.ui.test_plain_text import HOSTILE

__all__ = ["feed"]  # a fixture

LONG = "verylong" * 38
SHOWN = {
    # token: as shown in the text pane
    "<script>window.broken=1</script>": "<script>window.broken=1</script>",
    "</script>": "</script>",
    "<img src=x onerror=window.broken=1>": "<img src=x onerror=window.broken=1>",
    "</span><b>bold": "</span><b>bold",
    "&amp;": "&amp;",
    "&": "&",
    " \u202eright": r" \u202eright",
    "\u2067\u202c": r"\u2067\u202c",
    "\u200bzero": r"\u200bzero",
    "\ufeff": r"\ufeff",
    "\x00": r"\u0000",
    "\x1b[31m\x07": r"\u001b[31m\u0007",
    "\n": "\n",
    "\ttab": r"\u0009tab",
    "\r\n": "\\u000d\n",
    " 🙂": " 🙂",
    "\ufffd": "\ufffd",
    LONG: LONG,
    "": "",
    "עברית": "עברית",
    "${x} {{y}} :material/home: **z**": "${x} {{y}} :material/home: **z**",
}


def insight_of(text: str) -> Insight:
    top = Alternatives(token_ids=(1, 2), texts=(text, " other"), probs=(0.5, 0.25))
    return Insight(
        draft_prob=0.5, target_prob=0.25, draft_entropy=1.0, target_entropy=1.0,
        draft_top=top, target_top=top, residual_top=top,
    )  # fmt: skip


def with_text(entry: Round, text: str) -> Round:
    """Return the round with this text for every token."""

    def set_text(each: Candidate) -> Candidate:
        return replace(each, text=text, insight=insight_of(text))

    extra = replace(entry.extra, text=text) if entry.extra else None
    return replace(entry, candidates=tuple(map(set_text, entry.candidates)), extra=extra)


def prompt_of(texts: tuple[str, ...]) -> Prompt:
    return Prompt(text="".join(texts), token_ids=tuple(range(len(texts))), token_texts=texts)


def unsafe_trace() -> Trace:
    """Return a trace with each text in the prompt, in candidates of each fate and extra tokens."""
    rounds = [with_text(make_round(kind), text) for text in SHOWN for kind in ("ard", "")]
    return make_trace(rounds, config=RunConfig(gamma=3), prompt=prompt_of(tuple(SHOWN)))


@pytest.fixture(scope="module")
def wide(demo: Demo, contexts: Contexts) -> Iterator[Any]:
    """The page that Streamlit draws."""
    url = demo.show("unsafe", unsafe_trace(), state="done")
    page = contexts.open(url, width=1140)
    page.goto(url)
    page.wait_for_selector(ROUND)
    next_frame(page)
    yield page
    contexts.close(page)


@pytest.fixture(scope="module")
def narrow(player_context: Any) -> Iterator[Any]:
    """The player alone."""
    page = send(data_of(unsafe_trace()), blank_page(player_context, width=420))
    yield page
    page.close()


def assert_whole(page: Any) -> None:
    """Assert that tokens fit in panes, panes in the player, and the player in the page."""
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(OUTSIDE) == []


OUTSIDE = """() => {
  const found = [];
  const within = (outer, inner, name) => {
    const [frame, box] = [outer, inner].map((each) => each.getBoundingClientRect());
    if (box.width && (box.left < frame.left - 1 || box.right > frame.right + 1)) found.push(name);
  };
  const player = document.querySelector('[data-testid="player"]');
  const root = player.closest('.sv');
  for (const part of player.querySelectorAll('section, .controls, .scroll, .tour'))
    within(player, part, part.className);
  for (const part of root.querySelectorAll('section, article')) within(root, part, part.className);
  for (const pane of player.querySelectorAll('.scroll'))
    for (const token of pane.querySelectorAll('[data-testid="token"]'))
      within(pane, token, `${token.dataset.state} ${token.textContent}`);
  for (const card of root.querySelectorAll('[data-testid="verdict-card"]'))
    for (const part of card.querySelectorAll('q, p, li')) within(card, part, part.textContent);
  for (const box of root.querySelectorAll('.scroll, .tour, [data-testid="verdict-card"]'))
    if (box.scrollWidth > box.clientWidth) found.push(`${box.className} scrolls sideways`);
  return found;
}"""


def assert_nothing_ran(page: Any) -> None:
    assert page.evaluate("window.broken") is None
    made = "document.querySelectorAll('.sv script, .sv img, .sv iframe').length"
    assert page.evaluate(made) == 0
    inside = "all => all.filter(t => t.childElementCount > 0).length"
    assert page.eval_on_selector_all(TEXT_TOKENS, inside) == 0


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_text_is_right(request: pytest.FixtureRequest, width: str) -> None:
    page = request.getfixturevalue(width)
    shown = page.eval_on_selector_all(TEXT_TOKENS, "all => all.map(t => t.textContent)")
    emitted = [text for text in SHOWN.values() for _ in range(2 + 1)]
    assert shown == [*SHOWN.values(), *emitted]
    assert_nothing_ran(page)
    assert_whole(page)


# Steps back to the first token with the card's buttons, then reads every token up to the last.
WALK = """async () => {
  const card = document.querySelector('[data-testid="verdict-card"]');
  const frames = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const press = async (name, times = 1) => {
    const button = card.querySelector(`[aria-label="${name}"]`);
    if (button.disabled) return false;
    for (let i = 0; i < times; i++) button.click();
    await frames();
    return true;
  };
  const read = () => ({
    chip: document.querySelector('.round .selected').textContent,
    state: document.querySelector('.round .selected').dataset.state,
    quoted: [...card.querySelectorAll('p q')].map((each) => each.textContent),
    listed: [...card.querySelectorAll('li')].map((each) => each.firstChild.textContent),
    wide: card.scrollWidth - card.clientWidth,
  });
  while (await press('Previous token', 5));
  const found = [read()];
  while (await press('Next token')) found.push(read());
  return found;
}"""


def trace_of_bytes() -> Trace:
    """Return a trace whose tokens are the bytes of an umlaut, an emoji and an apostrophe."""
    text_bytes = "ü🙂’".encode()
    pieces = {str(byte): f"{byte:02x}" for byte in text_bytes}

    def byte_token(each: Any) -> Any:
        return replace(each, token_id=next(remaining_bytes), text="\ufffd")

    def byte_round(verdicts: str) -> Round:
        entry = make_round(verdicts)
        candidates = tuple(map(byte_token, entry.candidates))
        return replace(entry, candidates=candidates, extra=entry.extra and byte_token(entry.extra))

    remaining_bytes = iter(text_bytes)
    # The emoji spans two rounds.
    rounds = [byte_round(verdicts) for verdicts in ("a", "a", "aa", "a")]
    prompt = Prompt(
        text="Öl ", token_ids=(195, 150, 1), token_texts=("\ufffd", "\ufffd", "l "), kind=None
    )
    return make_trace(
        rounds, config=RunConfig(gamma=2), prompt=prompt, text="ü🙂’",
        pieces={**pieces, "195": "c3", "150": "96"},
    )  # fmt: skip


def test_split_characters_are_joined(feed: Feed) -> None:
    trace = trace_of_bytes()
    page = feed(data_of(trace))
    assert text_of(page) == trace.prompt.text + trace.text == "Öl ü🙂’"
    each = page.eval_on_selector_all(TEXT_TOKENS, "all => all.map(t => t.textContent)")
    assert each == ["", "Ö", "l ", "", "ü", "", "", "", "🙂", "", "", "’"]
    seek(page, 4)  # a candidate, the pass, its verdict, the bonus token
    assert text_of(page) == "Öl ü"
    chips = page.eval_on_selector_all(f"{ROUND} [data-place]", "all => all.map(t => t.textContent)")
    assert chips == ["⟨c3⟩", "⟨bc⟩"]
    card = page.inner_text('[data-testid="verdict-card"]')
    assert "\ufffd" not in card


def test_an_older_trace_is_shown_as_its_text(feed: Feed) -> None:
    trace = replace(trace_of_bytes(), pieces={})
    page = feed(data_of(trace))
    assert text_of(page) == "Öl ü🙂’"


def test_chips_and_the_card_show_the_same(narrow: Any) -> None:
    found = narrow.evaluate(WALK)
    chips = [text.replace(" ", "·").replace("\n", "⏎") or "∅" for text in SHOWN.values()]
    assert [each["chip"] for each in found] == [chip for chip in chips for _ in range(5)]
    one = ["accepted", "rejected", "discarded", "recovered", "bonus"]
    assert [each["state"] for each in found] == one * len(SHOWN)
    for each in found:
        assert set(each["quoted"]) == {each["chip"]}
        assert each["state"] == "bonus" or each["chip"] in each["listed"]
        assert each["wide"] == 0
    assert_nothing_ran(narrow)
    assert_whole(narrow)


def test_a_click_on_a_token_opens_its_card(wide: Any) -> None:
    wide.locator(f"{TEXT_TOKENS}[data-state=recovered]", has_text="<img src=x").click()
    next_frame(wide)
    card = wide.inner_text('[data-testid="verdict-card"]')
    assert "<img·src=x·onerror=window.broken=1>" in card
    assert_nothing_ran(wide)


def test_right_to_left_words_stay_in_order(wide: Any) -> None:
    places = wide.eval_on_selector_all(
        TEXT_TOKENS,
        """all => all.filter((t) => t.textContent === 'עברית' && t.dataset.state !== 'prompt')
          .map((t) => [...t.getClientRects()]).filter((boxes) => boxes.length === 1)
          .map(([{left, top}]) => [left, top])""",
    )
    lines: dict[float, list[float]] = {}
    for left, top in places:
        lines.setdefault(top, []).append(left)
    assert max(len(lefts) for lefts in lines.values()) > 1
    assert all(lefts == sorted(lefts) for lefts in lines.values())


def test_a_long_token_fits_in_the_tour(feed: Feed) -> None:
    trace = make_trace([with_text(make_round("r"), LONG)], config=RunConfig(gamma=1))
    page = feed(data_of(trace, "recorded", tour="force"), width=420)
    tour_to_question(page)
    box = settled_box(page, "[data-testid=tour] .choices")
    assert_whole(page)
    player = page.locator('[data-testid="player"]').bounding_box()
    assert box["y"] + box["height"] <= player["y"] + player["height"]


def test_a_prompt_of_two_thousand_tokens(feed: Feed) -> None:
    words = tuple(f" word{i}" for i in range(2000))
    trace = make_trace(["aar", "aaa"], prompt=prompt_of(words))
    page = feed(data_of(trace))
    shown = page.eval_on_selector_all(TEXT_TOKENS, "all => all.map(t => t.textContent)")
    assert shown[:2000] == list(words)
    assert "".join(shown[2000:]) == trace.text
    pane = page.locator('[data-testid="text-pane"]').bounding_box()
    last = page.locator(TEXT_TOKENS).last.bounding_box()
    assert pane["y"] <= last["y"] <= pane["y"] + pane["height"]
    assert_whole(page)


@pytest.mark.thorough
def test_a_folder_name_in_a_link_is_shown_literally(
    server: Server, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """The name contains every kind of Markdown; the error of Check quotes it."""
    folder = f"{tmp_path}/{' '.join(HOSTILE.values())}"
    link = {"pair": "Local", "pair_panel": "true", "target_folder": folder, "draft_folder": "x"}
    page = open_page(f"{server.url}/?{urlencode(link)}")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.get_by_role("button", name="Check", exact=True).click()
    alert = page.locator('[data-testid="stAlert"]', has_text="does not exist")
    alert.wait_for(timeout=90_000)  # after the pair that is loading
    page.wait_for_timeout(300)  # an image would be requested once it is drawn
    assert [url for url in requested if "pic.png" in url] == []
    assert repr(folder)[1:-1] in alert.inner_text().replace("\u2060", "")
    made = "a, img, code, em, strong, del, b, span[style], .katex, [data-testid*=Icon]"
    inside = alert.locator('[data-testid="stMarkdownContainer"]')
    assert inside.locator(made).evaluate_all("all => all.map((each) => each.outerHTML)") == []

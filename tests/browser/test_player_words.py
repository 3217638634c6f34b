"""The player's functions for counting and formatting, called in a blank page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest
from scipy.stats import binomtest, geom

from specviz import ASSETS
from specviz.player.player_source import player_source
from specviz.player.round_values import round_items
from specviz.player.script_modules import read_modules, variable_of
from specviz.record.trace import Candidate, Round, Trace
from tests.browser.long_runs import events_of, recorded
from tests.traces import make_round, make_trace

WILSON_ROUNDING = 2e-5  # the player takes 1.96 for 1.95996

STAGES: dict[str, int] = {"drafted": 0, "accepted": 1, "rejected": 1, "discarded": 1}

CHANGES: dict[str, dict[str, Any]] = {
    "draft": {"drawn": 1},
    "check": {},
    "verdict": {"judged": 1},
    "discard": {"faded": True},
    "land": {"landed": True},
}

WALK = """(rounds) => {
  const recording = new Recording('walked');
  recording.append(0, rounds);
  const steps = [];
  for (let cursor = 0; cursor <= recording.end; cursor++) {
    const at = recording.place(cursor);
    const round = recording.rounds[at.round];
    const kind = at.step ? eventKind(round, at.step) : null;
    steps.push({...at, kind, ...sceneAt(round, at.step)});
  }
  const {starts, tokens, seconds} = recording;
  return {steps, starts, tokens, seconds};
}"""


@pytest.fixture(scope="module")
def blank(browser: Any) -> Iterator[Any]:
    """An empty page with the player's functions."""
    script = player_source()[0].replace("export default", "window.component =")
    names = ", ".join(variable_of(path) for path in read_modules(ASSETS, "player/component.js"))
    page = browser.new_page()
    page.add_script_tag(content=f"{script}Object.assign(window, {names});")
    yield page
    page.close()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return recorded()


@pytest.fixture(scope="module")
def walked(blank: Any, trace: Trace) -> dict[str, Any]:
    return blank.evaluate(WALK, round_items(trace))


# Events


def test_the_prefix_sums_agree(walked: dict[str, Any], trace: Trace) -> None:
    assert walked["starts"] == [0, *accumulate(events_of(entry) for entry in trace.rounds)]
    assert walked["tokens"] == [0, *accumulate(len(entry.emitted) for entry in trace.rounds)]
    decode = [0, *accumulate(entry.times.decode for entry in trace.rounds)]
    assert walked["seconds"] == pytest.approx(decode, rel=1e-3)  # sent with four digits


def test_every_cursor_maps_to_a_round_and_a_step(walked: dict[str, Any], trace: Trace) -> None:
    places = [(step["round"], step["step"]) for step in walked["steps"]]
    expected = [(i, n + 1) for i, entry in enumerate(trace.rounds) for n in range(events_of(entry))]
    assert places == [(0, 0), *expected]


def test_every_candidate_ends_with_its_verdict(walked: dict[str, Any], trace: Trace) -> None:
    ends = [walked["steps"][start] for start in walked["starts"][1:]]
    assert [end["cells"] for end in ends] == [
        [each.verdict for each in entry.candidates] for entry in trace.rounds
    ]
    assert [end["extra"] for end in ends] == [entry.extra_kind for entry in trace.rounds]
    assert all(end["complete"] for end in ends)


def test_states_only_advance(walked: dict[str, Any]) -> None:
    for before, after in zip(walked["steps"], walked["steps"][1:], strict=False):
        if before["round"] != after["round"]:
            assert after["step"] == 1
            continue
        stages = [STAGES[cell] for cell in before["cells"]]
        later = [STAGES[cell] for cell in after["cells"]]
        assert all(old <= new for old, new in zip(stages, later, strict=False))
        assert len(later) >= len(stages)
        assert before["extra"] in {None, after["extra"]}
        assert not before["complete"]


def test_each_event_changes_one_thing(walked: dict[str, Any]) -> None:
    for before, after in zip(walked["steps"], walked["steps"][1:], strict=False):
        old = before["cells"] if before["round"] == after["round"] else []
        turned = [a for a, b in zip(after["cells"], old, strict=False) if a != b]
        changed = {
            "drawn": len(after["cells"]) - len(old),
            "judged": sum(cell != "discarded" for cell in turned),
            "faded": "discarded" in turned,
            "landed": after["extra"] is not None,
        }
        nothing = {"drawn": 0, "judged": 0, "faded": False, "landed": False}
        assert changed == nothing | CHANGES[after["kind"]]
        assert after["checking"] == (after["kind"] == "check")


@pytest.mark.parametrize("verdicts", ["", "a", "r", "d", "aaa", "ad", "rdd", "add"])
@pytest.mark.parametrize("cut", [None, "eos"])
def test_unusual_rounds_end_complete(blank: Any, verdicts: str, cut: Any) -> None:
    entry = make_round(verdicts, cut=cut)
    last = blank.evaluate(WALK, round_items(make_trace([entry])))["steps"][-1]
    assert last["cells"] == [each.verdict for each in entry.candidates]
    assert last["extra"] == entry.extra_kind
    assert last["complete"]


def test_duplicate_rounds_are_skipped_and_gaps_refused(blank: Any, trace: Trace) -> None:
    taken = blank.evaluate(
        """(rounds) => {
          const recording = new Recording('fed');
          const taken = [[0, 0, 5], [3, 3, 8], [0, 0, 4], [10, 10, 12], [8, 8, 12]]
            .map(([from, low, high]) => recording.append(from, rounds.slice(low, high)));
          return {taken, same: recording.rounds.every((round, i) => round === rounds[i])};
        }""",
        round_items(trace),
    )
    assert taken == {"taken": [5, 3, 0, 0, 4], "same": True}


def test_the_last_rounds_are_followed_if_they_arrive_after_the_end(
    blank: Any, trace: Trace
) -> None:
    followed = blank.evaluate(
        """(rounds) => {
          const [store, recording] = [new RunStore(), new Recording('late')];
          recording.append(0, rounds.slice(0, 3));
          store.show(recording, {live: true, playing: false});
          store.data = {growing: false, rounds: {total: 5}};
          store.grown();
          const waiting = store.live;
          recording.append(3, rounds.slice(3, 5));
          store.grown();
          return [waiting, store.cursor === recording.starts[5], store.live];
        }""",
        round_items(trace),
    )
    assert followed == [True, True, False]


# Counts


@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (1, 1), (90, 118), (3, 7), (0, 40), (40, 40)])
def test_the_band_is_a_wilson_interval(blank: Any, hits: int, trials: int) -> None:
    band = binomtest(hits, trials).proportion_ci(0.95, method="wilson")
    low, high = blank.evaluate("([hits, trials]) => wilson(hits, trials)", [hits, trials])
    assert (low, high) == pytest.approx((band.low, band.high), abs=WILSON_ROUNDING)


COUNTED = """(rounds) => {
  const recording = new Recording('counted');
  recording.append(0, rounds);
  const counts = new RoundCounts(recording);
  counts.take();
  const sizes = [1, 2, 3, 4, 5, 6, 7];
  return {
    alpha: counts.alpha,
    geometric: sizes.map((size) => geometricShare(counts, size)),
    emitted: sizes.map((size) => emittedShare(counts, size)),
    expected: counts.expected.at(-1),
    places: counts.places,
  };
}"""


@pytest.fixture(scope="module")
def counted(blank: Any, trace: Trace) -> dict[str, Any]:
    return blank.evaluate(COUNTED, round_items(trace))


def candidates_of(rounds: tuple[Round, ...]) -> list[Candidate]:
    return [each for entry in rounds for each in entry.candidates]


def test_alpha_is_accepted_over_tested(counted: dict[str, Any], trace: Trace) -> None:
    tested = [each for each in candidates_of(trace.rounds) if each.tested]
    accepted = sum(each.verdict == "accepted" for each in tested)
    assert counted["alpha"] == accepted / len(tested)
    expected = sum(each.expected_acceptance for each in tested)
    assert counted["expected"] == pytest.approx(expected, rel=1e-3)


def test_the_geometric_distribution_is_normalized(counted: dict[str, Any], trace: Trace) -> None:
    gamma = trace.config.gamma
    failing = 1 - counted["alpha"]
    probs = [*(geom.pmf(size, failing) for size in range(1, gamma + 1)), geom.sf(gamma, failing)]
    assert counted["geometric"] == pytest.approx([*probs, 0])
    assert sum(counted["geometric"]) == pytest.approx(1)


def test_shorter_rounds_use_their_own_geometric_distribution(blank: Any) -> None:
    rounds = [make_round("ar"), make_round("aaa"), make_round("r"), make_round("")]
    counted = blank.evaluate(COUNTED, round_items(make_trace(rounds)))
    alpha = counted["alpha"]
    probs = [[alpha**size * (1 - alpha) for size in range(n)] + [alpha**n] for n in (2, 3, 1, 0)]
    mean = [sum(row[i] for row in probs if i < len(row)) / 4 for i in range(4)]
    assert counted["geometric"][:4] == pytest.approx(mean)


def test_the_bars_count_whole_rounds(counted: dict[str, Any], trace: Trace) -> None:
    sizes = [len(entry.emitted) for entry in trace.rounds if entry.whole]
    shares = [sizes.count(size) / len(sizes) for size in range(1, 8)]
    assert counted["emitted"] == pytest.approx(shares)


def test_positions_count_tested_candidates(counted: dict[str, Any], trace: Trace) -> None:
    for place, counts in enumerate(counted["places"]):
        there = [r.candidates[place] for r in trace.rounds if place < r.num_drafted]
        assert counts == {
            "drafted": len(there),
            "tested": sum(each.tested for each in there),
            "accepted": sum(each.verdict == "accepted" for each in there),
        }


# Words

TEXTS = {
    # text: (in the text pane, on a chip)
    " dog": (" dog", "·dog"),
    "two  blanks": ("two  blanks", "two··blanks"),
    "\n\n": ("\n\n", "⏎⏎"),
    "": ("", "∅"),
    "\t": (r"\u0009", r"\u0009"),
    "\x00\x1f\x7f\x9f": (r"\u0000\u001f\u007f\u009f", r"\u0000\u001f\u007f\u009f"),
    "\r\n": ("\\u000d\n", r"\u000d⏎"),
    "\u202eabc\u202c": (r"\u202eabc\u202c", r"\u202eabc\u202c"),
    "\u2066\u2069": (r"\u2066\u2069", r"\u2066\u2069"),
    "a\u200bb\u200d\ufeff": (r"a\u200bb\u200d\ufeff", r"a\u200bb\u200d\ufeff"),
    "\u2028\u2029": (r"\u2028\u2029", r"\u2028\u2029"),
    "\U000e0041\U000e0042": (r"\u{e0041}\u{e0042}", r"\u{e0041}\u{e0042}"),
    "\ufffd": ("\ufffd", "\ufffd"),
    "é 🙂 中文 עברית": ("é 🙂 中文 עברית", "é·🙂·中文·עברית"),
    "<b>&amp;</b>": ("<b>&amp;</b>", "<b>&amp;</b>"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_shown_with_visible_escapes(blank: Any, text: str) -> None:
    shown = blank.evaluate("(text) => [visibleText(text), chipText(text)]", text)
    assert tuple(shown) == TEXTS[text]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.0004, "<\u00a00.1"), (0.042, "4.2"), (0.18, "18"), (0.996, "99.6"), (1, "100")],
)
def test_a_likelihood_in_percent(blank: Any, value: float, words: str) -> None:
    shown = blank.evaluate("(value) => likelihood(value)", value)
    assert shown.replace("\u00a0%", "").removesuffix(" %") == words


def test_probabilities_below_1_are_not_rounded_to_100_percent(blank: Any) -> None:
    assert blank.evaluate("likelihood(0.99999)") == "99.9 %"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (0.43, 0.71, ["0.43", "0.71"]),
        (0.4301, 0.4304, ["0.4301", "0.4304"]),
        (0.9999, 1, ["0.9999", "1.0000"]),
        (0.5, 0.5, ["0.50", "0.50"]),
        (0.3, 0.9951, ["0.300", "0.995"]),
        (0.9951, 0.3, ["0.995", "0.300"]),
        (0.003, 0.5, ["<\u00a00.01", "0.50"]),
        (0, 0.5, ["0.00", "0.50"]),
    ],
)
def test_two_numbers_are_distinguishable(
    blank: Any, one: float, other: float, expected: list[str]
) -> None:
    assert blank.evaluate("([one, other]) => distinguish(one, other)", [one, other]) == expected


LATE = """async () => {
  const box = makeLinkBox({ data: { link: { heard: 1 } } });
  document.body.append(box.drop.element);
  box.drop.element.open = true;
  box.asked = 1;
  box.download();
  await new Promise((done) => setTimeout(done, 300));
  const place = document.createElement('div');
  place.className = 'st-key-download_replay';
  let presses = 0;
  const button = document.createElement('button');
  button.addEventListener('click', () => { presses += 1; });
  place.append(button);
  document.body.append(place);
  await new Promise((done) => setTimeout(done, 700));
  place.remove();
  box.drop.element.remove();
  return presses;
}"""


def test_a_replay_is_downloaded_although_its_button_is_redrawn(blank: Any) -> None:
    assert blank.evaluate(LATE) == 1

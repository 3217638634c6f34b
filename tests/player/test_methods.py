"""The player's rounds of every way to speculate, worked out by its own scripts from real runs."""

from __future__ import annotations

import json
from functools import cache
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from specviz.player.payload import payload_of_trace
from specviz.record.trace import Round
from tests.methods import WAYS, way_trace
from tests.node import ROOT, run_node

SCRIPT = f"""
import {{ readFileSync }} from "node:fs";
import * as events from "{(ROOT / "assets/player/round_events.js").as_uri()}";
import * as shape from "{(ROOT / "assets/player/round_shape.js").as_uri()}";
const told = JSON.parse(readFileSync(process.argv[1], "utf8")).map((round) => {{
  const count = events.eventsOf(round);
  const steps = Array.from({{ length: count + 1 }}, (_, step) => events.sceneAt(round, step));
  const kinds = steps.slice(1).map((_, i) => events.eventKind(round, i + 1));
  const wait = kinds.map((kind, i) =>
    events.trueWait(round, i + 1 === events.passedAt(round) ? "pass" : kind));
  return {{
    kinds,
    shown: steps.map((scene) => scene.cells.length),
    told: steps.map((scene) => scene.cells.filter((each) => each !== "drafted").length),
    end: steps[count],
    layouts: [false, true].map((all) => shape.layoutOf(round, all)),
    wait: wait.reduce((sum, each) => sum + each, 0),
    failed: events.failedPlace(round),
    right: round.candidates.map((_, place) => shape.besideInTree(round, place, [0, 1], true)),
    down: round.candidates.map((_, place) => shape.besideInTree(round, place, [1, 0], true)),
  }};
}});
console.log(JSON.stringify(told));
"""


def payload(way: str) -> dict[str, Any]:
    return payload_of_trace(way_trace(way), run_id=way, state="done", label=way)


@cache
def told(way: str) -> list[tuple[Round, dict[str, Any]]]:
    items = payload(way)["rounds"]["items"]
    for each in items:
        each["candidates"] = [c | {"insight": None} for c in each["candidates"]]
    with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(items, file)
        file.flush()
        said = run_node("--input-type=module", "--eval", SCRIPT, "--", file.name)
    return list(zip(way_trace(way).rounds, json.loads(said), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_a_round_ends_with_every_verdict_of_the_record(way: str) -> None:
    for entry, shown in told(way):
        assert shown["end"]["cells"] == [each.verdict for each in entry.candidates]
        assert shown["end"]["extra"] == (entry.extra.kind if entry.extra else None)
        assert shown["end"]["complete"]
        for counts in (shown["shown"], shown["told"]):
            assert counts == sorted(counts)
            assert counts[0] == 0
        assert shown["wait"] == pytest.approx(entry.times.decode, rel=1e-3)


def test_a_tree_is_drafted_a_depth_at_a_time_and_one_decision_gives_all_verdicts() -> None:
    for entry, shown in told("tree"):
        tested = sum(each.tested for each in entry.candidates)
        assert shown["kinds"].count("verdict") == tested
        assert shown["kinds"].count("draft") <= 3
    whole = [shown for entry, shown in told("tree") if entry.whole]
    assert all(shown["shown"][1:4] == [3, 9, 15] for shown in whole)
    for _, shown in told("block"):
        assert shown["kinds"].count("verdict") == 1


@pytest.mark.parametrize("way", ["drafts", "tree", "wide"])
def test_no_two_tokens_of_a_tree_stand_in_one_place(way: str) -> None:
    folded = 0
    for entry, shown in told(way):
        for all_lines, layout in zip((False, True), shown["layouts"], strict=True):
            extra = [layout["extra"]] if entry.extra else []
            cells = [*filter(None, layout["cells"]), *extra]
            assert len({(each["row"], each["column"]) for each in cells}) == len(cells)
            assert not all_lines or (all(layout["cells"]) and layout["hidden"] == 0)
        few, _ = shown["layouts"]
        folded += few["hidden"]
        tested = [i for i, each in enumerate(entry.candidates) if each.tested]
        assert all(few["cells"][place] for place in tested)
    assert (folded > 0) == (way == "wide")


@pytest.mark.parametrize("way", ["drafts", "tree"])
def test_a_child_stands_a_column_behind_what_it_hangs_on(way: str) -> None:
    for entry, shown in told(way):
        cells = shown["layouts"][1]["cells"]
        for place, each in enumerate(entry.candidates):
            parent = each.parent if each.parent is not None else place - 1
            above = cells[parent] if parent >= 0 else {"row": 0, "column": -1}
            assert cells[place]["column"] == above["column"] + 1
            assert cells[place]["up"] == cells[place]["row"] - above["row"] >= 0


def test_the_arrows_go_along_the_tree() -> None:
    for entry, shown in told("tree"):
        for place, right in enumerate(shown["right"]):
            if right is not None and right < entry.num_drafted:
                assert entry.candidates[right].parent == place
        for place, down in enumerate(shown["down"]):
            assert down is None or down > place or down == entry.num_drafted


def test_the_token_replaced_is_the_last_that_was_tried_or_the_first_that_was_cut() -> None:
    for way in ("tree", "block"):
        found = 0
        for entry, shown in told(way):
            if entry.extra is None or entry.extra.kind == "bonus":
                continue
            fell = [i for i, e in enumerate(entry.candidates) if e.verdict in ("rejected", "cut")]
            assert shown["failed"] == (fell[-1] if way == "tree" else fell[0])
            found += 1
        assert found


def test_what_has_no_meaning_is_left_out() -> None:
    ids = {each["id"] for each in payload("block")["summary"]["figures"]}
    assert "alpha-observed" not in ids
    assert "draft-acceptance-rate" in ids
    left_out = payload("tree")["charts"]["left_out"]
    assert left_out["charts"] == ["acceptance", "places", "throughput"]
    assert "several candidates stand for one place" in left_out["why"]
    assert payload("coupled")["charts"]["left_out"]["charts"] == ["throughput"]


def test_a_candidate_brings_what_its_rule_decided_by() -> None:
    def first(way: str) -> dict[str, Any]:
        return payload(way)["rounds"]["items"][0]["candidates"][0]

    assert {"joint", "coin"} <= set(first("block"))
    assert first("coupled")["rival"]["noise"] > 0.0
    assert "noise" not in first("match")["rival"]
    assert first("tree")["parent"] == -1
    assert not {"parent", "joint", "coin", "noise", "rival"} & set(first("sure"))

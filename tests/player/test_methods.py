"""The player's rounds for every method, computed by its own scripts from real runs."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from specviz.player.any_run import payload_of_run
from specviz.record.trace import Round
from tests.methods import METHODS, method_trace
from tests.node import ROOT, run_node

SCRIPT = f"""
import {{ readFileSync }} from "node:fs";
import * as events from "{(ROOT / "assets/player/round_events.js").as_uri()}";
import * as shape from "{(ROOT / "assets/player/round_shape.js").as_uri()}";
const scenes = JSON.parse(readFileSync(process.argv[1], "utf8")).map((round) => {{
  const count = events.eventsOf(round);
  const steps = Array.from({{ length: count + 1 }}, (_, step) => events.sceneAt(round, step));
  const kinds = steps.slice(1).map((_, i) => events.eventKind(round, i + 1));
  const wait = kinds.map((kind, i) =>
    events.trueWait(round, i + 1 === events.passedAt(round) ? "pass" : kind));
  return {{
    kinds,
    shown: steps.map((scene) => scene.cells.length),
    decided: steps.map((scene) => scene.cells.filter((each) => each !== "drafted").length),
    before: {{ extra: steps[count - 1].extra, complete: steps[count - 1].complete }},
    end: steps[count],
    layouts: [false, true].map((all) => shape.layoutOf(round, all)),
    wait: wait.reduce((sum, each) => sum + each, 0),
    failed: events.failedPlace(round),
    right: round.candidates.map((_, place) => shape.besideInTree(round, place, [0, 1], true)),
    down: round.candidates.map((_, place) => shape.besideInTree(round, place, [1, 0], true)),
  }};
}});
console.log(JSON.stringify(scenes));
"""


def payload(method: str) -> dict[str, Any]:
    return payload_of_run(method_trace(method), run_id=method, state="done", label=method)


@cache
def scenes_of(method: str) -> list[tuple[Round, dict[str, Any]]]:
    items = payload(method)["rounds"]["items"]
    for each in items:
        each["candidates"] = [c | {"insight": None} for c in each["candidates"]]
    with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(items, file)
        file.flush()
        output = run_node("--input-type=module", "--eval", SCRIPT, "--", file.name)
    return list(zip(method_trace(method).rounds, json.loads(output), strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_a_round_ends_with_every_verdict_of_the_record(method: str) -> None:
    for entry, shown in scenes_of(method):
        assert shown["end"]["cells"] == [each.verdict for each in entry.candidates]
        assert shown["end"]["extra"] == (entry.extra.kind if entry.extra else None)
        assert shown["end"]["complete"]
        for counts in (shown["shown"], shown["decided"]):
            assert counts == sorted(counts)
            assert counts[0] == 0
        assert shown["wait"] == pytest.approx(entry.times.decode, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_the_extra_token_is_the_last_event(method: str) -> None:
    for entry, shown in scenes_of(method):
        assert shown["kinds"].count("land") == bool(entry.extra)
        assert not entry.extra or shown["kinds"][-1] == "land"
        assert shown["before"] == {"extra": None, "complete": False}
    assert any(entry.extra for entry, _ in scenes_of(method))


def test_trees_draft_one_depth_at_a_time_and_block_has_one_decision() -> None:
    for entry, shown in scenes_of("tree"):
        tested = sum(each.tested for each in entry.candidates)
        assert shown["kinds"].count("verdict") == tested
        assert shown["kinds"].count("draft") <= 3
    whole = [shown for entry, shown in scenes_of("tree") if entry.whole]
    assert all(shown["shown"][1:4] == [3, 9, 15] for shown in whole)
    for _, shown in scenes_of("block"):
        assert shown["kinds"].count("verdict") == 1


@pytest.mark.parametrize("method", ["dynamic", "dynamic by matching"])
def test_the_levels_of_a_dynamic_tree_vary(method: str) -> None:
    widths = set[int]()
    for entry, shown in scenes_of(method):
        if entry.whole:
            drafting = shown["kinds"].count("draft")
            counts = shown["shown"][: drafting + 1]
            assert counts[-1] == entry.num_drafted <= 14
            widths |= {after - before for before, after in pairwise(counts)}
    assert len(widths) > 2


@pytest.mark.parametrize("method", ["drafts", "tree", "wide", "dynamic", "dynamic by matching"])
def test_no_two_tokens_of_a_tree_share_a_cell(method: str) -> None:
    folded = 0
    for entry, shown in scenes_of(method):
        for all_lines, layout in zip((False, True), shown["layouts"], strict=True):
            extra = [layout["extra"]] if entry.extra else []
            cells = [*filter(None, layout["cells"]), *extra]
            assert len({(each["row"], each["column"]) for each in cells}) == len(cells)
            assert not all_lines or (all(layout["cells"]) and layout["hidden"] == 0)
        few, _ = shown["layouts"]
        folded += few["hidden"]
        tested = [i for i, each in enumerate(entry.candidates) if each.tested]
        assert all(few["cells"][place] for place in tested)
    assert method.startswith("dynamic") or (folded > 0) == (method == "wide")


@pytest.mark.parametrize("method", ["drafts", "tree", "dynamic", "dynamic by matching"])
def test_a_child_is_one_column_after_its_parent(method: str) -> None:
    for entry, shown in scenes_of(method):
        cells = shown["layouts"][1]["cells"]
        for place, each in enumerate(entry.candidates):
            parent = each.parent if each.parent is not None else place - 1
            above = cells[parent] if parent >= 0 else {"row": 0, "column": -1}
            assert cells[place]["column"] == above["column"] + 1
            assert cells[place]["up"] == cells[place]["row"] - above["row"] >= 0


def test_arrow_keys_follow_the_tree() -> None:
    for entry, shown in scenes_of("tree"):
        for place, right in enumerate(shown["right"]):
            if right is not None and right < entry.num_drafted:
                assert entry.candidates[right].parent == place
        for place, down in enumerate(shown["down"]):
            assert down is None or down > place or down == entry.num_drafted


def test_the_replaced_token_is_the_last_tried_or_the_first_cut() -> None:
    for method in ("tree", "block"):
        found = 0
        for entry, shown in scenes_of(method):
            if entry.extra is None or entry.extra.kind == "bonus":
                continue
            fell = [i for i, e in enumerate(entry.candidates) if e.verdict in ("rejected", "cut")]
            assert shown["failed"] == (fell[-1] if method == "tree" else fell[0])
            found += 1
        assert found


def test_leaves_out_what_does_not_apply() -> None:
    ids = {each["id"] for each in payload("block")["summary"]["figures"]}
    assert "alpha-observed" not in ids
    assert "draft-acceptance-rate" in ids
    left_out = payload("tree")["charts"]["left_out"]
    assert left_out["charts"] == ["acceptance", "places", "throughput"]
    assert "a position has several candidates" in left_out["why"]
    assert payload("coupled")["charts"]["left_out"]["charts"] == ["throughput"]


def test_a_candidate_has_what_its_rule_decided_by() -> None:
    def first(method: str) -> dict[str, Any]:
        return payload(method)["rounds"]["items"][0]["candidates"][0]

    assert {"joint", "coin"} <= set(first("block"))
    assert first("coupled")["rival"]["noise"] > 0.0
    assert "noise" not in first("match")["rival"]
    assert first("tree")["parent"] == -1
    assert not {"parent", "joint", "coin", "noise", "rival"} & set(first("sure"))

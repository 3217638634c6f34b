"""Trees of heads: each node as its path drafted alone; the target's text and distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.engine.heads.eagle import EagleRun
from specviz.engine.heads.head import Head, HeadRun
from specviz.engine.heads.mtp import find_mtp, open_mtp
from specviz.engine.loading.head_loading import target_parts
from specviz.engine.model import lean
from specviz.engine.model.step_capabilities import Missing
from specviz.errors import ConfigError, PairError
from tests.engine.heads import tiny_mtp
from tests.engine.heads.small_texts import SMALL, exact, first_tokens
from tests.engine.heads.test_head_runs import (
    SHORT,
    head_pair,
    reduced,
    settings,
)
from tests.engine.heads.test_medusa import opened as opened_medusa
from tests.engine.heads.test_mtp import opened as opened_mtp
from tests.engine.heads.tiny_heads import LAYERS, opened, random_rows, write_eagle, write_eagle3
from tests.engine.heads.tiny_medusa import write_medusa
from tests.engine.heads.tiny_mtp import write_mtp
from tests.engine.models import pair_of, tiny_model
from tests.engine.playing import play, tokens
from tests.engine.test_lossless import ENOUGH, p_value

assert reduced  # a fixture
TREES: dict[str, dict[str, Any]] = {
    "drafts": {"num_drafts": 2},
    "tree": {"branching": (3, 2, 1)},
    "tree by matching": {"branching": (3, 2, 1), "rule": "match"},
    "dynamic tree": {"dynamic_tree": (4, 12)},
    "dynamic tree by matching": {"dynamic_tree": (4, 12), "rule": "match"},
}
KINDS = ("eagle", "eagle3", "medusa")
LEVELS = ((-1, -1, -1), (0, 2, 0), (3, 4), (6,))  # parents, level by level
MADE: dict[str, Callable[[Path], Head]] = {
    "eagle": lambda path: opened(write_eagle(path, layers=2)),
    "eagle3": lambda path: opened(write_eagle3(path, query_norms=True)),
    "mtp": lambda path: opened_mtp(write_mtp(path, "glm4_moe")),
    "mtp with latent attention": lambda path: opened_mtp(write_mtp(path, "deepseek_v3")),
    "several mtp": lambda path: opened_mtp(write_mtp(path, "glm4_moe", 5)),
    "several unshifted mtp": lambda path: with_settings(
        opened_mtp(write_mtp(path, "mimo", 5)), shift_ids=0, first_position=2
    ),
    "unshifted mtp": lambda path: with_settings(
        opened_mtp(write_mtp(path, "mimo")), shift_ids=0, first_position=2
    ),
    "unshifted": lambda path: with_settings(opened(write_eagle3(path)), shift_ids=0),
    "recycling normed states": lambda path: with_settings(
        opened(write_eagle3(path)), recycle_normed=True
    ),
}


def with_settings(head: Head, **changes: Any) -> Head:
    return head.with_settings(replace(head.settings, **changes))


def branched(run: HeadRun, ids: torch.Tensor, levels: Sequence[Sequence[int]]) -> torch.Tensor:
    """The logits of all nodes, read level by level."""
    parts, first = [], 0
    for parents in levels:
        parts.append(run.branch(ids[first : first + len(parents)], parents))
        first += len(parents)
    return torch.cat(parts)


def path_to(node: int, levels: Sequence[Sequence[int]]) -> list[int]:
    parents = [parent for level in levels for parent in level]
    return [*(path_to(parents[node], levels) if parents[node] >= 0 else []), node]


@pytest.mark.parametrize("kind", MADE)
def test_each_node_has_the_logits_of_its_path(kind: str, tmp_path: Path) -> None:
    head = MADE[kind](tmp_path / "head")
    places = len(head.states.places)
    rows = random_rows(9, places * head.target.width)
    ids = random_rows(9, 1, seed=8)[0]
    run = head.start(40)
    for begin, end in ((0, 1), (1, 3), (3, 6), (6, 9)):  # each tree replaces the one before
        run.begin(*(each[begin:end] for each in rows))
        found = branched(run, ids, LEVELS)
        alone = head.start(40)
        for node in range(len(found)):
            alone.forget(alone.length)
            alone.begin(*(each[:end] for each in rows))
            path = [alone.go_on(ids[each : each + 1]) for each in path_to(node, LEVELS)]
            torch.testing.assert_close(found[node], path[-1][0], rtol=1e-4, atol=1e-4)


def test_the_nodes_of_one_depth_share_a_distribution_of_medusa(tmp_path: Path) -> None:
    head = opened_medusa(write_medusa(tmp_path / "head"))
    rows = random_rows(4, head.target.width)
    run, chain = head.start(20), head.start(20)
    run.begin(*rows)
    chain.begin(*rows)
    found = branched(run, random_rows(6, 1)[0], LEVELS[:2])
    expected = [chain.go_on(torch.tensor([1])) for _ in range(2)]
    assert torch.equal(found, torch.cat([expected[0]] * 3 + [expected[1]] * 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["lean", pytest.param("library", marks=pytest.mark.thorough)])
def test_a_tree_of_a_head_does_not_change_the_greedy_text(kind: str, step: str) -> None:
    pair = head_pair(kind, step)
    for changes in TREES.values():
        chosen = settings(kind, temperature=0.0, record=False, **changes)
        run = speculate(pair, SHORT, chosen)
        rounds = list(run)
        assert run.emitted == tuple(decode_plainly(pair, SHORT, chosen))
        assert sum(entry.num_drafted for entry in rounds) > 3 * len(rounds)


def test_the_kind_limits_the_depth() -> None:
    rounds = play(head_pair("medusa"), settings("medusa", branching=(2, 1, 1, 1)), SHORT)
    assert {entry.num_drafted for entry in rounds[:-2]} == {6}  # three heads


@pytest.mark.parametrize("kind", KINDS)
def test_runs_with_trees_are_recorded_and_timed_again(kind: str) -> None:
    pair, chosen = head_pair(kind), settings(kind, dynamic_tree=(3, 8))
    rounds = play(pair, chosen, SHORT)
    assert tokens(rounds) == tokens(play(pair, chosen, SHORT))
    assert any(each.insight for entry in rounds for each in entry.candidates)
    assert len(TimedReplay(pair, SHORT, chosen, rounds).speculative(2, 5)) == 3


@pytest.mark.parametrize("tree", [{"branching": (3, 2)}, {"dynamic_tree": (3, 8)}])
@pytest.mark.parametrize("kind", ["eagle3", pytest.param("medusa", marks=pytest.mark.thorough)])
def test_a_tree_of_a_head_has_its_own_costs(kind: str, tree: dict[str, Any]) -> None:
    chosen = settings(kind, gamma=3, **tree)
    found = measure_step_costs(head_pair(kind), chosen, contexts=(60,), repeats=1, seconds=60.0)
    assert found is not None
    assert found.shape is not None
    assert (found.shape.shape, found.shape.dynamic) == (chosen.shape, chosen.dynamic_tree)
    assert found.shape.draft[0] > 0.0


def test_refuses_trees_that_cannot_be_drafted() -> None:
    with pytest.raises(ConfigError, match="Several drafts and trees need drafter=model, eagle"):
        settings("dflash", dynamic_tree=(3, 8))
    head = head_pair("dflash").head
    assert head is not None
    assert not head.trees
    with pytest.raises(PairError, match="This head does not draft trees"):
        head.start(20).branch(torch.tensor([1]), [-1])


def test_the_targets_step_must_support_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Missing("tiny models cannot draft trees", "Draft a chain")
    whole: Any = lean.LeanStep.capabilities
    monkeypatch.setattr(
        lean.LeanStep,
        "capabilities",
        property(lambda step: replace(whole.fget(step), trees=lacking)),
    )
    pair = head_pair("eagle")
    with pytest.raises(PairError, match="tiny models cannot draft trees"):
        speculate(pair, SHORT, settings("eagle", dynamic_tree=(3, 8)))
    assert play(pair, settings("eagle", max_new_tokens=4), SHORT)


# The distribution of sampled texts

SMALL_TREES = [
    {"dynamic_tree": (3, 6)},
    pytest.param({"dynamic_tree": (3, 6), "rule": "match"}, marks=pytest.mark.thorough),
    pytest.param({"branching": (3, 2)}, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("changes", SMALL_TREES)
def test_sampled_texts_have_the_targets_distribution(
    reduced: Pair, changes: dict[str, Any]
) -> None:
    """With a head that can propose 4 of 7 tokens."""
    assert p_value(first_tokens(reduced, 250, changes), exact(reduced)) > ENOUGH


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A target of 7 tokens with two MTP layers."""
    monkeypatch.setattr(tiny_mtp, "VOCABULARY", SMALL)
    target = tiny_model("llama", vocabulary=SMALL, num_hidden_layers=LAYERS, sigma=0.2)
    pair = pair_of(target, None, step="lean")
    facts = find_mtp(write_mtp(tmp_path / "mtp", "mimo", 2))
    assert facts is not None
    pair.head = open_mtp(facts, target_parts("tiny", target.config, pair))
    return pair


@pytest.mark.parametrize("changes", SMALL_TREES)
def test_trees_of_several_layers_have_the_targets_distribution(
    several: Pair, changes: dict[str, Any]
) -> None:
    assert p_value(first_tokens(several, 250, changes), exact(several)) > ENOUGH


def test_the_test_finds_siblings_that_see_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask by rows instead of ancestors changes the logits of a node."""
    head = opened(write_eagle(tmp_path / "head"))
    rows, ids = random_rows(6, head.target.width), random_rows(6, 1, seed=8)[0]
    run = head.start(40)
    run.begin(*rows)
    right = branched(run, ids, LEVELS[:2])
    attend = EagleRun._attend

    def careless(self: Any, index: int, x: Any, begin: int, end: int, *more: Any) -> Any:
        return attend(self, index, x, begin, end, self._mask(begin, end), *more[1:])

    monkeypatch.setattr(EagleRun, "_attend", careless)
    run.forget(1)
    run.begin(*(each[5:] for each in rows))
    wrong = branched(run, ids, LEVELS[:2])
    assert (right - wrong).abs().max() > 1e-2

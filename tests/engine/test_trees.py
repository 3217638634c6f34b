"""Trees in a step: each node has the logits of its path fed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from specviz.engine.model import library_step as step_module
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.step_capabilities import FINAL
from specviz.engine.model.steps import Step
from specviz.engine.model.trees import OpenNodes
from specviz.errors import PairError
from specviz.kernels.step import MOST_ROWS
from tests.engine.models import FAMILIES, VOCABULARY, WINDOW, stir, tiny_model

LEAN = ("llama", "mistral", "qwen2", "qwen3")
CAPACITY = 160
PROMPT = 2 * WINDOW + 3
KINDS = [
    *(("library", family) for family in FAMILIES),
    *(("torch", family) for family in LEAN),
    *(("compiled", family) for family in LEAN),
    *((kind, "windows in some layers") for kind in ("library", "torch", "compiled")),
]
SOME_WINDOWS = {
    "use_sliding_window": True,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
}


def make(kind: str, family: str, *, dtype: torch.dtype = torch.float32) -> Step:
    some = family == "windows in some layers"
    plain = tiny_model("qwen2" if some else family, sigma=0.2, **SOME_WINDOWS if some else {})
    stirred: Any = stir(plain)
    model = stirred.to(dtype)
    if kind == "library":
        return LibraryStep(model, VOCABULARY)
    weights = LeanWeights.take(model)
    assert weights is not None
    step = LeanStep(weights, VOCABULARY, CAPACITY)
    assert step._compiled is not None
    if kind == "torch":
        step._compiled = None
    return step


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (count,), generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Tree:
    tokens: torch.Tensor
    parents: tuple[int, ...]

    def path(self, node: int) -> list[int]:
        before = self.path(self.parents[node]) if self.parents[node] >= 0 else []
        return [*before, node]

    def branch(self, step: Step, sizes: Sequence[int]) -> torch.Tensor:
        """All logits, fed in several calls."""
        parts, begin = [], 0
        for size in sizes:
            part = slice(begin, begin + size)
            parts.append(step.branch(self.tokens[part], self.parents[part]))
            begin += size
        return torch.cat(parts)


def random_tree(count: int, seed: int, deepest: int = 4) -> Tree:
    """Random parents of limited depth: mixed branching, unordered levels."""
    generator = torch.Generator().manual_seed(seed)
    parents: list[int] = []
    depths: list[int] = []
    for node in range(count):
        able = [-1, *(each for each in range(node) if depths[each] < deepest - 1)]
        parent = able[int(torch.randint(len(able), (), generator=generator))]
        parents.append(parent)
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return Tree(ids(count, seed + 1), tuple(parents))


def fed_alone(step: Step, tree: Tree, node: int) -> torch.Tensor:
    path = tree.path(node)
    logits = step.feed(tree.tokens[path], len(path))
    step.forget(len(path))
    return logits[-1]


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "family"), KINDS)
@pytest.mark.parametrize("sizes", [(9,), (2, 3, 1, 5), (30, 12)], ids=str)
def test_each_node_has_the_logits_of_its_path(
    kind: str, family: str, sizes: tuple[int, ...]
) -> None:
    step, tree = make(kind, family), random_tree(sum(sizes), seed=len(sizes))
    assert len(set(tree.parents)) > 3
    step.feed(ids(PROMPT, 5), 0)
    logits = tree.branch(step, sizes)
    assert step.length == PROMPT
    step.keep(())
    assert step.length == PROMPT
    close(logits, torch.stack([fed_alone(step, tree, node) for node in range(sum(sizes))]))


@pytest.mark.parametrize(("kind", "family"), KINDS)
def test_kept_nodes_equal_fed_tokens(kind: str, family: str) -> None:
    tree = Tree(ids(8, 1), (-1, -1, 0, 1, 1, 4, 4, 6))
    step, other = make(kind, family), make(kind, family)
    for each in (step, other):
        each.feed(ids(PROMPT, 5), 0)
    for path in ([1, 4, 6, 7], [0], [], [1, 4]):
        tree.branch(step, (2, 5, 1))
        step.keep(path)
        if path:
            other.feed(tree.tokens[path], 0)
        assert step.length == other.length
        close(step.feed(ids(3, 9), 3), other.feed(ids(3, 9), 3))
    step.forget(2)
    other.forget(2)
    close(tree.branch(step, (8,)), tree.branch(other, (3, 5)))


@pytest.mark.parametrize(("kind", "family"), KINDS)
def test_a_chain_of_nodes_equals_a_feed(kind: str, family: str) -> None:
    step, count = make(kind, family), MOST_ROWS
    step.feed(ids(PROMPT, 5), 0)
    tree = Tree(ids(count, 2), tuple(range(-1, count - 1)))
    logits = tree.branch(step, (count,))
    step.keep(())
    fed = step.feed(tree.tokens, count)
    if kind == "compiled":
        assert torch.equal(logits, fed)
    close(logits, fed)


@pytest.mark.parametrize("family", [*LEAN, "windows in some layers"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_logits_do_not_depend_on_threads_or_on_other_open_nodes(
    monkeypatch: pytest.MonkeyPatch, family: str, dtype: str
) -> None:
    """Nor on the order of the nodes."""
    tree = random_tree(26, seed=8)
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        step = make("compiled", family, dtype=getattr(torch, dtype))
        step.feed(ids(MOST_ROWS, 5), 0)
        logits = tree.branch(step, (4, 22))
        step.keep(())
        alone = torch.stack([fed_alone(step, tree, node) for node in range(26)])
        assert torch.equal(logits, alone)


@pytest.mark.parametrize("kind", ["library", "torch", "compiled"])
def test_a_tree_may_follow_an_empty_text(kind: str) -> None:
    step, tree = make(kind, "mistral"), random_tree(7, seed=3)
    logits = tree.branch(step, (7,))
    step.keep(())
    close(logits, torch.stack([fed_alone(step, tree, node) for node in range(7)]))


@pytest.mark.parametrize("kind", ["library", "torch", "compiled"])
def test_hidden_states_are_those_of_the_nodes(kind: str) -> None:
    step, tree = make(kind, "llama"), random_tree(6, seed=4)
    step.request_hidden(FINAL)
    step.feed(ids(PROMPT, 5), 0)
    tree.branch(step, (6,))
    ours = step.hidden
    step.keep(())
    assert ours is not None
    for node in range(6):
        fed_alone(step, tree, node)
        assert step.hidden is not None
        torch.testing.assert_close(ours[node], step.hidden[-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["library", "torch", "compiled"])
def test_feeding_requires_settled_nodes(kind: str) -> None:
    step = make(kind, "llama")
    step.feed(ids(4, 5), 0)
    step.branch(ids(3, 1), (-1, 0, 0))
    with pytest.raises(AssertionError):
        step.feed(ids(1, 1), 1)
    with pytest.raises(AssertionError):
        step.forget(1)
    with pytest.raises(AssertionError):
        step.keep((0, 1, 2))  # two siblings
    with pytest.raises(AssertionError):
        step.branch(ids(1, 1), (3,))  # its own parent


def test_rejects_a_family_whose_mask_shows_siblings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = make("library", "gpt2")
    step.feed(ids(4, 5), 0)

    def all_seen(nodes: OpenNodes, count: int, length: int, *_: object) -> torch.Tensor:
        return torch.zeros(count, length + len(nodes), dtype=torch.bool)

    with monkeypatch.context() as broken:
        broken.setattr(OpenNodes, "unseen", all_seen)
        with pytest.raises(PairError, match="gpt2 models cannot draft trees"):
            step.branch(ids(2, 1), (-1, -1))
    assert step.length == 4


def test_rejects_an_unknown_kind_of_layer() -> None:
    model = tiny_model("qwen2", layer_types=["full_attention", "full_attention"])
    model.config.layer_types = ["chunked_attention", "full_attention"]
    with pytest.raises(PairError, match="cannot draft trees"):
        LibraryStep(model, VOCABULARY).branch(ids(2, 1), (-1, -1))


def test_tree_support_is_tested_once_per_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tries = tiny_model("phi"), []
    tried = step_module._agrees_with_paths
    monkeypatch.setattr(
        step_module, "_agrees_with_paths", lambda *each: tries.append(1) or tried(*each)
    )
    for _ in range(3):
        LibraryStep(model, VOCABULARY).branch(ids(2, 1), (-1, -1))
    assert len(tries) == 1

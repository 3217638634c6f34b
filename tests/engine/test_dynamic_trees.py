"""Dynamic trees: exact by enumeration of all draws, and grown as EAGLE-2 grows them.

The enumeration runs the drafter and the judges of the engine with chosen distributions. It visits
every order of drawn children and every token that the target may draw.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from specviz.engine import speculate
from specviz.engine.decoding import token_matching, tree_growth, tree_verification
from specviz.engine.decoding.proposal import Proposal, depths
from specviz.engine.decoding.sampling import ArgmaxChooser, Draws, Sampler
from specviz.engine.decoding.tree_drafting import TreeDrafter
from specviz.engine.decoding.tree_growth import LikeliestGrowth, SampledGrowth
from specviz.record.run_config import RunConfig
from specviz.theory.rounds import Emitted, Kernel, Text, round_bias
from tests.engine.playing import PROMPT, llama_pair
from tests.theory.kernels import ROUNDING, both

UNUSED = Draws(torch.zeros(0))
TREES = [(3, (2, 4), 3), (4, (2, 3), 2), (3, (3, 5), 2), (2, (2, 6), 3)]  # vocabulary, tree, γ


@dataclass
class KernelReader:
    """Reads a tree with the distributions of a kernel."""

    kernel: Kernel
    paths: list[Text] = field(default_factory=list[Text])
    wants_hidden = False
    deepest = None

    def prefill(self, prompt_ids: Sequence[int]) -> None: ...

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None: ...

    def begin(self, history: Sequence[int], hidden: object) -> tuple[torch.Tensor, int]:
        del history, hidden
        self.paths = []
        return self._logits([()]), 1

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        above = [self.paths[parent] if parent >= 0 else () for parent in parents]
        read = [(*path, token) for path, token in zip(above, token_ids.tolist(), strict=True)]
        self.paths += read
        return self._logits(read)

    def _logits(self, paths: Sequence[Text]) -> torch.Tensor:
        return torch.tensor(np.array([self.kernel(path) for path in paths])).log()


@dataclass
class Script:
    """A chooser that draws given tokens, then the first possible ones; notes the alternatives."""

    given: Text
    drawn: list[int] = field(default_factory=list[int])
    chance: float = 1.0
    others: list[Text] = field(default_factory=list[Text])

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del draws, number
        probs = logits.softmax(-1)
        possible = probs[0].nonzero()[:, 0].tolist()
        if len(self.drawn) < len(self.given):
            token = self.given[len(self.drawn)]
        else:
            token = possible[0]
            self.others += [(*self.drawn, other) for other in possible[1:]]
        self.chance *= float(probs[0, token])
        self.drawn.append(token)
        return torch.tensor([token]), probs


def drafted(draft: Kernel, config: RunConfig) -> Iterator[tuple[Proposal, float]]:
    """Yield every tree that the drafter can draw, with its probability."""
    reader, open_ = KernelReader(draft), [Text()]
    while open_:
        script = Script(open_.pop())
        choose = ArgmaxChooser() if config.rule == "match" else script
        drafter = TreeDrafter(reader, config, choose, len(draft(())))
        yield drafter.propose([0], config.gamma, UNUSED, None), script.chance
        open_ += script.others


def texts_of(proposal: Proposal) -> list[Text]:
    """The texts after which the target's distributions are read: the empty one, then each node."""
    texts = [Text()]
    for parent, token in zip(proposal.in_tree, proposal.token_ids.tolist(), strict=True):
        texts.append((*texts[parent + 1], token))
    return texts


def target_rows(target: Kernel, texts: Sequence[Text]) -> torch.Tensor:
    return torch.tensor(np.array([target(text) for text in texts]))


def judged_by_odds(proposal: Proposal, target: Kernel) -> Emitted:
    """What the judge for the lossless rule emits for this tree, by its own odds and residuals."""
    texts, emitted = texts_of(proposal), defaultdict[Text, float](float)
    probs = target_rows(target, texts)
    walk = tree_verification._Walk(proposal, probs, torch.zeros(len(proposal.token_ids)))

    def below(node: int, chance: float) -> None:
        remaining = probs[node + 1]
        for child in proposal.children.get(node, []):
            after = walk._remaining_after(child, remaining)
            accepted = min(1.0, walk.target_probs[child] / walk.draft_probs[child])
            below(child, chance * accepted)
            chance, remaining = chance * (1.0 - accepted), after
        for token, share in enumerate(remaining.tolist()):
            emitted[*texts[node + 1], token] += chance * share

    below(-1, 1.0)
    return emitted


def judged_by_matching(proposal: Proposal, target: Kernel) -> Emitted:
    """What token matching emits for this tree, over every token that the target draws."""
    texts, emitted = texts_of(proposal), defaultdict[Text, float](float)
    tokens = range(len(target(())))
    ids, children = proposal.token_ids.tolist(), proposal.children

    def along(drawn: dict[int, int], chance: float) -> None:
        walk = token_matching._Walk.down(ids, children, [drawn.get(row, -1) for row in range(99)])
        end = walk.end + 1
        for token in [] if end in drawn else tokens:
            along(drawn | {end: token}, chance * float(target(texts[end])[token]))
        if end in drawn:
            emitted[*texts[end], drawn[end]] += chance

    along({}, 1.0)
    return emitted


def emitted_by(draft: Kernel, target: Kernel, config: RunConfig) -> Emitted:
    found = defaultdict[Text, float](float)
    judged = judged_by_matching if config.rule == "match" else judged_by_odds
    for proposal, chance in drafted(draft, config):
        for text, share in judged(proposal, target).items():
            found[text] += chance * share
    return found


@pytest.mark.parametrize("rule", ["lossless", "match"])
@pytest.mark.parametrize(("vocabulary", "tree", "gamma"), TREES)
def test_a_round_has_the_targets_distribution(
    rule: str, vocabulary: int, tree: tuple[int, int], gamma: int
) -> None:
    config = RunConfig(temperature=1.0, gamma=gamma, dynamic_tree=tree, rule=rule)  # pyright: ignore[reportArgumentType]
    for seed in (0, 1):
        draft, target = both(seed, vocabulary, gamma)
        emitted = emitted_by(draft, target, config)
        assert sum(emitted.values()) == pytest.approx(1.0, abs=ROUNDING)
        assert round_bias(emitted, target) < ROUNDING
        assert len({len(text) for text in emitted}) > 1


def full_width(
    growth: SampledGrowth, depth: int, above: Sequence[float], tops: np.ndarray
) -> list[int]:
    del growth, depth, above
    return np.isfinite(tops).sum(-1).tolist()


def test_finds_that_drawn_children_are_pruned_by_their_probability(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As EAGLE-2 prunes its candidates, which are not drawn but the likeliest tokens."""
    draft, target = both(1, 3, 2)
    config = RunConfig(temperature=1.0, gamma=2, dynamic_tree=(3, 4))
    assert round_bias(emitted_by(draft, target, config), target) < ROUNDING
    monkeypatch.setattr(SampledGrowth, "children", full_width)
    monkeypatch.setattr(SampledGrowth, "verified", LikeliestGrowth.verified)
    assert round_bias(emitted_by(draft, target, config), target) > 1e-3


# The shape of the trees


def grown(
    draft: Kernel, config: RunConfig, choose: Callable[..., object] | None = None
) -> tuple[list[Text], Proposal]:
    reader = KernelReader(draft)
    chooser = choose or ArgmaxChooser()
    drafter = TreeDrafter(reader, config, chooser, len(draft(())))  # pyright: ignore[reportArgumentType]
    proposal = drafter.propose([0], config.gamma, UNUSED, None)
    return texts_of(proposal)[1:], proposal


def chance_of(draft: Kernel, text: Text) -> float:
    return float(np.prod([draft(text[:place])[token] for place, token in enumerate(text)]))


def eagle2(draft: Kernel, width: int, candidates: int, depth: int) -> set[Text]:
    """The candidates of EAGLE-2, written from its paper."""
    vocabulary = range(len(draft(())))
    level, every = [Text()], list[Text]()
    for _ in range(depth):
        children = [
            (*text, token)
            for text in level
            for token in sorted(vocabulary, key=lambda each: -draft(text)[each])[:width]
            if draft(text)[token] > 0.0
        ]
        every += children
        level = sorted(children, key=lambda text: -chance_of(draft, text))[:width]
    return set(sorted(every, key=lambda text: -chance_of(draft, text))[:candidates])


@pytest.mark.parametrize("seed", range(6))
def test_the_likeliest_tree_is_that_of_eagle_2(seed: int) -> None:
    draft, _ = both(seed, 5, 3)
    for width, candidates in ((2, 6), (3, 8), (4, 30)):
        config = RunConfig(gamma=3, dynamic_tree=(width, candidates), rule="match")
        texts, proposal = grown(draft, config)
        assert set(texts) == eagle2(draft, width, candidates, 3)
        assert len(texts) == len(set(texts))
        assert set(proposal.probs.unique().tolist()) == {0.0, 1.0}
        places = depths(proposal.in_tree)
        assert places == sorted(places)  # as the pages draw trees, depth by depth
        runs = [parent for parent, _ in itertools.groupby(proposal.in_tree)]
        assert len(runs) == len(set(runs)), "siblings are not together"


def sampled(draft: Kernel, tree: tuple[int, int], gamma: int, seed: int) -> list[int]:
    """The number of candidates by depth of a drawn tree."""
    sampler = Sampler(RunConfig(temperature=1.0))
    uniforms = torch.from_numpy(np.random.default_rng(seed).random(4096, np.float32))

    def choose(
        logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del draws
        return sampler.choose(logits, uniforms[number : number + 1])

    _, proposal = grown(draft, RunConfig(gamma=gamma, dynamic_tree=tree), choose)
    places = depths(proposal.in_tree)
    return [places.count(depth) for depth in range(gamma)]


def peaked(share: float, vocabulary: int = 12) -> Kernel:
    """A draft that gives the first token ``share``, and halves the rest token by token."""
    rest = (1.0 - share) * 0.5 ** np.arange(1, vocabulary)
    probs = np.array([share, *rest]) / (share + rest.sum())
    return lambda text: probs


def test_a_sampled_tree_is_deep_if_the_draft_is_certain_and_wide_if_not() -> None:
    certain = np.mean([sampled(peaked(0.98), (4, 8), 6, seed) for seed in range(8)], 0)
    unsure = np.mean([sampled(peaked(0.3), (4, 8), 6, seed) for seed in range(8)], 0)
    assert certain[0] <= 2
    assert certain[5] >= 0.5
    assert unsure[0] >= 3
    assert unsure[5] == 0


def test_a_sampled_tree_has_all_its_candidates_where_there_is_room() -> None:
    for seed in range(8):
        counts = sampled(peaked(0.6), (8, 24), 5, seed)
        assert sum(counts) == 24
        assert max(counts[1:]) <= 64


def test_a_nodes_children_do_not_depend_on_their_own_draws() -> None:
    """The same earlier draws give the same number of children, whatever tokens these are."""
    draft, _ = both(3, 4, 2)
    config = RunConfig(temperature=1.0, gamma=2, dynamic_tree=(3, 5))
    numbers = defaultdict[tuple[int, ...], set[tuple[int, ...]]](set)
    for proposal, _ in drafted(draft, config):
        tokens, children = proposal.token_ids.tolist(), proposal.children
        roots = children[-1]
        first = tuple(tokens[node] for node in roots)
        numbers[first].add(tuple(len(children.get(node, [])) for node in roots))
    assert len({len(first) for first in numbers}) == 1
    assert all(len(each) == 1 for each in numbers.values())
    assert len({each for found in numbers.values() for each in found}) > 1


@pytest.mark.parametrize("rule", ["lossless", "match"])
def test_impossible_tokens_are_no_children(rule: str) -> None:
    """As with a head whose vocabulary is a part of its target's."""
    probs = np.array([0.6, 0.4, 0.0, 0.0, 0.0])
    config = RunConfig(temperature=0.0, gamma=3, dynamic_tree=(4, 40), rule=rule)  # pyright: ignore[reportArgumentType]
    texts, _ = grown(lambda text: probs, config)
    assert {token for text in texts for token in text} == {0, 1}
    assert len(texts) == 2 + 4 + 8


def test_the_deepest_level_gets_what_is_left() -> None:
    growth = tree_growth.SampledGrowth((2, 10), 2, likeliest=False)
    tops = np.log(np.array([[0.9, 0.1]]))
    assert growth.children(0, [0.0], tops) == [2]
    assert growth.children(1, [-0.1, -2.0], np.repeat(tops, 2, 0)) == [2, 2]
    small = tree_growth.SampledGrowth((2, 3), 3, likeliest=False)
    assert small.children(0, [0.0], tops) == [1]
    assert small.children(1, [-0.1], tops) == [1]
    assert small.children(2, [-0.2], tops) == [1]
    assert small.expanded([0], [0.0]) == []


# Runs


@pytest.mark.parametrize("rule", ["lossless", "match"])
def test_the_draft_keeps_the_rows_of_the_accepted_path(rule: str) -> None:
    """Each round drafts what a run drafts that begins with the text so far."""
    pair = llama_pair("lean")
    config = RunConfig(
        temperature=0.0,
        gamma=4,
        dynamic_tree=(4, 9),
        rule=rule,  # pyright: ignore[reportArgumentType]
        max_new_tokens=40,
        ignore_eos=True,
        record=False,
    )
    text, deep = list[int](PROMPT), 0
    for entry in speculate(pair, PROMPT, config):
        if entry.whole:
            fresh = next(speculate(pair, text, config))
            for each in ("token_id", "parent"):
                drafted = [getattr(candidate, each) for candidate in entry.candidates]
                assert drafted == [getattr(candidate, each) for candidate in fresh.candidates]
            path = [n for n, each in enumerate(entry.candidates) if each.verdict == "accepted"]
            deep += len(path) > 1 and path != list(range(len(path)))
        text += entry.emitted
    assert deep > 2, "no round accepted a path off the first nodes"

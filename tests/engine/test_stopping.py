"""Drafting that stops before γ: the target's distribution, and exact replay."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.drafting import ModelDrafter
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Sampler, make_chooser
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.decoding.stopping import ConfidenceStopper, CostStopper, _Share, make_stopper
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.errors import ConfigError
from specviz.record.trace import DraftingCosts, Round, RunConfig
from tests.engine.playing import OWN_STEPS, PROMPT, config, llama_pair, timeless, tokens
from tests.engine.test_lossless import (
    DEPTH,
    ENOUGH,
    VOCABULARY,
    exact_distribution,
    p_value,
    tiny_pair,
)
from tests.engine.test_lossless import PROMPT as SHORT

GAMMA = 5
FREE = DraftingCosts(draft_first=0.0, draft_next=0.0, verify=(1.0,) * (GAMMA + 1))
DEAR = replace(FREE, draft_first=1.5, draft_next=1.5)
USUAL = DraftingCosts(
    draft_first=0.15, draft_next=0.12, verify=tuple(1 + 0.06 * more for more in range(GAMMA + 1))
)
COST = config(gamma=GAMMA, draft_until="cost")
UNSURE = config(gamma=GAMMA, draft_until="confidence:0.02", temperature=0.6)


@pytest.fixture(params=OWN_STEPS)
def pair(request: pytest.FixtureRequest) -> Pair:
    return llama_pair(request.param)


def played(pair: Pair, settings: RunConfig, costs: DraftingCosts | None = USUAL) -> list[Round]:
    return list(speculate(pair, PROMPT, settings, costs=costs))


def lengths(rounds: Sequence[Round]) -> list[int]:
    """Candidates drafted in rounds with room for γ."""
    return [entry.num_drafted for entry in rounds if entry.whole]


@pytest.mark.parametrize("until", ["cost", "confidence:0.05", "count"])
def test_the_greedy_text_equals_the_targets(pair: Pair, until: str) -> None:
    greedy = config(gamma=GAMMA, draft_until=until, temperature=0.0)
    rounds = played(pair, greedy)
    assert tokens(rounds) == tuple(decode_plainly(pair, PROMPT, greedy))
    assert (len(set(lengths(rounds))) > 1) == (until != "count")


@pytest.mark.parametrize("settings", [COST, UNSURE, replace(COST, temperature=0.0)])
def test_replayed_rounds_are_the_same(pair: Pair, settings: RunConfig) -> None:
    rounds = played(pair, settings)
    assert len(set(lengths(rounds))) > 1
    again = speculate(pair, PROMPT, replace(settings, record=False), costs=USUAL)
    bare = list(again)
    assert timeless(bare) == timeless(rounds)
    chance = random.Random(4)
    for first in chance.choices(range(len(rounds)), k=8):
        while again.index < first:
            next(again)
        if again.index > first:
            again.go_back(bare[first])
        last = chance.randint(first + 1, len(rounds))
        assert timeless([next(again) for _ in range(first, last)]) == timeless(rounds[first:last])
    timed_replay = TimedReplay(pair, PROMPT, settings, rounds, USUAL)
    for first, last in ((0, len(rounds)), (1, 3), (len(rounds) - 1, len(rounds)), (0, 2)):
        assert len(timed_replay.speculative(first, last)) == last - first


def test_free_drafting_never_stops_early(pair: Pair) -> None:
    assert set(lengths(played(pair, COST, FREE))) == {GAMMA}


def test_expensive_drafting_never_begins(pair: Pair) -> None:
    rounds = played(pair, COST, DEAR)
    assert set(lengths(rounds)) == {0}
    assert all(len(entry.emitted) == 1 for entry in rounds)


def test_drafts_less_where_drafting_costs_more(pair: Pair) -> None:
    means = [
        float(np.mean(lengths(played(pair, COST, replace(USUAL, draft_first=c, draft_next=c)))))
        for c in (0.01, 0.2, 0.5)
    ]
    assert GAMMA >= means[0] > means[1] > means[2] > 0


def test_the_last_candidate_is_tested(pair: Pair) -> None:
    rounds = played(pair, UNSURE)
    ended = [entry for entry in rounds if entry.whole and entry.num_drafted < GAMMA]
    assert ended
    for entry in ended:
        *sure, unlikely = entry.candidates
        assert unlikely.draft_prob < 0.02 <= min((c.draft_prob for c in sure), default=1.0)
    standing = [entry for entry in ended if entry.num_accepted == entry.num_drafted]
    rejected = [entry for entry in ended if entry.candidates[-1].verdict == "rejected"]
    assert standing
    assert rejected
    assert all(entry.extra_kind == "bonus" for entry in standing)


# -- what is learned


def test_continues_while_acceptance_is_worth_the_cost() -> None:
    """By hand under the prior, with a first step so expensive that λ is 1 and one further row."""
    for chance, pays in ((0.93, 0.75 * (1 + 0.935) / 2), (0.02, 0.75 * (1 + 0.05) / 2)):
        for cost, should_continue in ((pays - 1e-9, True), (pays + 1e-9, False)):
            costs = replace(USUAL, draft_first=5.0, draft_next=cost - 0.04, verify=(1, 1, 1.04))
            stopper = CostStopper(costs, greedy=False)
            assert not stopper.should_continue(0)
            observe(stopper, chance)
            assert stopper.should_continue(1) == should_continue


@given(
    st.lists(st.floats(0.9, 4.0), min_size=1, max_size=10),
    st.floats(0.0, 0.5),
    st.floats(0.0, 0.5),
    st.floats(0.05, 0.98),
    st.floats(1.0, 4.0),
)
def test_drafts_the_optimal_length(
    rows: list[float], first: float, later: float, share: float, rate: float
) -> None:
    """By trying each length, with equal acceptance of all candidates; verifying more may be
    cheaper."""
    verify = (1.0, *rows)
    worth = [
        sum(share**num_accepted for num_accepted in range(length + 1))
        - rate * ((first + (length - 1) * later if length else 0.0) + row)
        for length, row in enumerate(verify)
    ]
    stopper = CostStopper(
        DraftingCosts(draft_first=first, draft_next=later, verify=verify), greedy=False
    )
    (known,) = stopper._known
    even = _Share(share, 1.0)
    same = replace(known, bins=(even,) * len(known.bins), any=even, tokens=rate, steps=1.0)
    stopper._known = [same]
    length = 0
    while stopper.should_continue(length):
        observe(stopper, 0.5)
        length += 1
    assert worth[length] == pytest.approx(max(worth), abs=1e-9)


def test_looks_past_an_expensive_row() -> None:
    """Two rows cost half a step more, five hardly more than one."""
    hump = replace(USUAL, draft_first=0.05, draft_next=0.02, verify=(1, 1.5, 1.7, 1.3, 1.2, 1.2))
    assert CostStopper(hump, greedy=False).should_continue(0)
    alone = replace(hump, verify=(1, 1.8, 2.7, 3.6, 4.5, 5.4))
    assert not CostStopper(alone, greedy=False).should_continue(0)


def observe(stopper: CostStopper, chance: float) -> None:
    distribution = torch.tensor([[chance, 1 - chance]])
    stopper.observe(distribution.log(), distribution, torch.tensor([0]))


def test_rejections_stop_drafting_for_a_while() -> None:
    stopper = CostStopper(USUAL, greedy=False)
    drafted = []
    for index in range(200):
        should_continue = stopper.should_continue(0)
        drafted.append(should_continue)
        if should_continue:
            observe(stopper, 0.3)
        stopper.learn(index, 0, 1)
    assert all(drafted[:3])
    assert 0 < sum(drafted[50:]) < 50


def test_going_back_restores_the_state() -> None:
    stopper, moments = CostStopper(USUAL, greedy=False), []
    for index in range(20):
        moments.append(stopper._known[-1])
        for chance in (0.9, 0.5, 0.1)[: 1 + index % 3]:
            observe(stopper, chance)
        stopper.learn(index, index % 2, 1 + index % 2)
    assert len(set(moments)) == 20
    for index in (13, 13, 7, 0):
        observe(stopper, 0.2)  # in an unfinished round
        stopper.go_back(index)
        assert stopper._known[-1] == moments[index]
        assert not stopper._places


def test_uses_the_probability_at_temperature_1_if_greedy() -> None:
    logits, one_hot = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    for greedy, sure in ((True, False), (False, True)):
        stopper = ConfidenceStopper(0.6, greedy=greedy)
        stopper.observe(logits, one_hot, torch.tensor([0]))
        assert stopper.should_continue(1) == sure


@pytest.mark.parametrize("costs", [None, replace(USUAL, verify=USUAL.verify[:GAMMA])])
def test_rejects_cost_stopping_without_costs(costs: DraftingCosts | None) -> None:
    with pytest.raises(ConfigError, match="step costs of 5 candidates") as refused:
        make_stopper(COST, costs)
    assert "\n" not in str(refused.value)


# -- the distribution of the text


def looped(until: str, *, dropping: float = 0.0, count: int = 2_000) -> tuple[np.ndarray, set[int]]:
    """Cells of the first tokens of runs with different seeds, and the lengths drafted."""
    texts, drafted = np.empty((count, DEPTH), dtype=np.int64), set[int]()
    for seed in range(count):
        settings = RunConfig(
            gamma=3, draft_until=until, temperature=1.0, max_new_tokens=3 + DEPTH,
            ignore_eos=True, record=False, seed=seed,
        )  # fmt: skip
        drafter = Dropping(tiny_pair(), settings, dropping) if dropping else None
        run = Speculation(tiny_pair(), SHORT, settings, drafter=drafter, costs=USUAL)
        while len(run.emitted) < DEPTH:
            drafted.add(next(run).num_drafted)
        texts[seed] = run.emitted[:DEPTH]
    return texts @ VOCABULARY ** np.arange(DEPTH - 1, -1, -1), drafted


class Dropping(ModelDrafter):
    """The fault: drops an unlikely drawn candidate and all after it."""

    def __init__(self, pair: Pair, settings: RunConfig, threshold: float) -> None:
        choose = make_chooser(settings, Sampler(settings))
        super().__init__(pair.draft_step(64), choose, pair.vocabulary)
        self._threshold = threshold

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        whole = super().propose(history, count, draws, hidden)
        chances = whole.probs.gather(-1, whole.token_ids[:, None])[:, 0]
        kept = int((chances >= self._threshold).cumprod(0).sum())
        return whole.part(list(range(kept)))


@pytest.mark.thorough
@pytest.mark.parametrize("until", ["cost", "confidence:0.2"])
def test_the_first_tokens_have_the_targets_distribution(until: str) -> None:
    cells, drafted = looped(until)
    assert len(drafted) > 2
    assert p_value(cells, exact_distribution("plain")) > ENOUGH


@pytest.mark.thorough
def test_detects_a_drafter_that_drops_candidates() -> None:
    cells, drafted = looped("count", dropping=0.2)
    assert 0 in drafted
    assert p_value(cells, exact_distribution("plain")) < 1e-6

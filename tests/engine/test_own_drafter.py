"""User-defined drafters: what they receive, and that the text stays correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, one_hot
from specviz.engine.decoding.speculation import Speculation
from specviz.record.trace import RunConfig
from tests.engine.asking import load

GREEDY = RunConfig(temperature=0.0, max_new_tokens=24, ignore_eos=True, gamma=3)
PROMPT = "Once upon a time there was a ball."


class _HeadReader:
    """Proposes the target head's token for the last hidden state, repeatedly."""

    wants_hidden = True

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.seen: list[torch.Size] = []

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        del prompt_ids

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        del history, draws
        assert hidden is not None
        self.seen.append(hidden.shape)
        head: Any = self._pair.target.get_output_embeddings()
        logits = head(hidden[-1:])[:, : self._pair.vocabulary].float()
        ids = logits.argmax(-1).repeat(count)
        return Proposal(ids, one_hot(ids[:, None], self._pair.vocabulary), None, 0)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        del valid, kept


@pytest.mark.parametrize("step", ["library", "lean"])
def test_a_custom_drafter_receives_hidden_states(llama: Path, step: str) -> None:
    pair = load(llama, step=step)
    drafter = _HeadReader(pair)
    run = Speculation(pair, PROMPT, GREEDY, drafter=drafter)
    rounds = list(run)
    assert run.emitted == tuple(decode_plainly(pair, PROMPT, GREEDY))
    assert len(drafter.seen) == len(rounds)
    config: Any = pair.target.config
    width = config.hidden_size
    assert drafter.seen[0] == (len(run.prompt.token_ids) - 1, width)
    accepted = [entry.num_accepted for entry in rounds[:-1]]
    assert min(accepted) < GREEDY.gamma
    assert drafter.seen[1:] == [(count + 1, width) for count in accepted]


@pytest.mark.parametrize("step", ["library", "lean"])
def test_the_newest_hidden_state_is_that_of_the_text(llama: Path, step: str) -> None:
    pair = load(llama, step=step)
    read: list[tuple[list[int], torch.Tensor]] = []

    class Reader(_HeadReader):
        def propose(
            self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
        ) -> Proposal:
            assert hidden is not None
            read.append((list(history), hidden[-1]))
            return super().propose(history, count, draws, hidden)

    list(Speculation(pair, PROMPT, GREEDY, drafter=Reader(pair)))
    for history, found in read:
        with torch.inference_mode():
            model: Any = pair.target
            states = model(torch.tensor([history[:-1]]), output_hidden_states=True).hidden_states
        torch.testing.assert_close(found, states[-1][0, -1], atol=1e-4, rtol=1e-4)


def test_a_run_with_hidden_states_goes_back(llama: Path) -> None:
    pair = load(llama, step="lean")
    config = replace(GREEDY, record=False)
    run = Speculation(pair, PROMPT, config, drafter=_HeadReader(pair))
    rounds = list(run)
    run.go_back(rounds[2])
    again = [next(run) for _ in rounds[2:]]
    for first, second in zip(rounds[2:], again, strict=True):
        assert [each.token_id for each in first.candidates] == [
            each.token_id for each in second.candidates
        ]
        assert first.emitted == second.emitted

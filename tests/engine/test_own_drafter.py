"""User-defined drafters: what they receive, and that the text stays correct."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, one_hot
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
    run = speculate(pair, PROMPT, GREEDY, drafter=drafter)
    rounds = list(run)
    assert run.emitted == tuple(decode_plainly(pair, PROMPT, GREEDY))
    assert len(drafter.seen) == len(rounds)
    config: Any = pair.target.config
    width = config.hidden_size
    assert drafter.seen[0] == (1, width)  # the prompt's last token but one
    assert drafter.seen[1] == (GREEDY.gamma + 1, width)

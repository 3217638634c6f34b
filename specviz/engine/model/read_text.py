"""Keep the KV caches of a conversation for the run that continues the conversation.

The run of a new message copies the cache rows of the earlier messages and answers, and feeds only
the new message. If the same message is run again, or replayed to measure the time, the same rows
are copied as in the message's first run. So all of these runs feed the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.model.steps import Step
from specviz.values import Value


class ReadText(Value, eq=False):
    """A text in the models' caches: a prompt and its answer."""

    token_ids: tuple[int, ...]
    num_prompt: int
    num_copied: int  # prompt tokens whose cache rows were copied
    target: Step
    draft: Step | None  # None if the drafter has no cache of its own

    def num_shared(self, prompt_ids: Sequence[int]) -> int:
        """Return how many cache rows of this text a run with the prompt ``prompt_ids`` copies.

        These are the rows of the leading tokens that this text and ``prompt_ids``, without its last
        token, have in common. Unless ``prompt_ids`` continues this text's whole prompt, they are at
        most ``num_copied``, so a run of the same prompt copies as many as this text's own run.
        """
        same = 0
        for own, other in zip(self.token_ids, prompt_ids[:-1], strict=False):
            if own != other:
                break
            same += 1
        continues = same >= self.num_prompt
        return min(same, self.target.length) if continues else min(same, self.num_copied)


def read(step: Step, token_ids: Sequence[int]) -> None:
    """Feed the tokens that are not in the step's cache yet."""
    if unread := token_ids[step.length :]:
        step.feed(torch.tensor(unread, device=step.device), 0)

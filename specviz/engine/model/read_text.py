"""Keep the KV caches of a conversation for the run that continues the conversation.

The run of a new message copies the cache rows of the earlier messages and answers, and feeds only
the new message. A message may be run again, or replayed to measure the time. Every such run copies
the rows that the message's first run copied. So all runs of a message feed the same tokens.
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

        The last token of ``prompt_ids`` is not considered. The run copies the rows of the leading
        tokens that this text and ``prompt_ids`` share. But if these tokens do not contain the whole
        prompt of this text, the run copies at most ``num_copied`` rows. This is the case if
        this text's prompt is run again, since its last token is not considered: that run copies as
        many rows as the run that produced this text.
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

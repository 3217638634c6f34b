"""Let the target write the missing answers to earlier turns of a conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.record.conversations import Conversation
from specviz.record.run_config import RunConfig

if TYPE_CHECKING:
    from specviz.engine import Pair

_LONGEST = 256  # tokens of an answer
_SHARE = 4  # an answer fills at most a quarter of the context


def with_answers(pair: Pair, asked: Conversation, config: RunConfig) -> Conversation:
    """Let the target alone write every empty answer; return the complete conversation.

    The target samples with the settings of the run. An answer ends at EOS or at a length limit.
    """
    from specviz.engine import decode_plainly

    longest = min(_LONGEST, (pair.max_context or _SHARE * _LONGEST) // _SHARE)
    alone = replace(
        config, max_new_tokens=longest, ignore_eos=False, forks=(), stop=(), record=False
    )
    while (place := asked.unanswered) is not None:
        ids = list(decode_plainly(pair, asked.until(place), alone))
        while ids and ids[-1] in pair.eos_ids:
            ids.pop()
        asked = asked.with_answer(place, pair.token_table.join(ids).strip() or "…")
    return asked

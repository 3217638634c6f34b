"""Where a lane of the bench left the words of plain decoding, and how near a tie that was.

In float32 all lanes write the same words, or they are not one engine's work. In half
precision the order of a sum may decide between two tokens that are all but equally likely
(the lanes batch their tokens differently), so there it is told and not refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Never

from specviz.errors import PairError

if TYPE_CHECKING:
    from specviz.engine import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    lane: str
    kind: str  # of the prompt
    position: int  # of the first token that differs, from 0
    margin: float  # logits between the target's two likeliest tokens there


def divergences(
    pair: Pair, kind: str, prompt_ids: Sequence[int], texts: Mapping[str, Sequence[int]]
) -> list[Divergence]:
    """The first one of each lane that did not write as ``texts["plain"]``; refused in float32."""
    reference = texts["plain"]
    found = [
        _divergence(pair, lane, kind, prompt_ids, _first_difference(own, reference), reference)
        for lane, own in texts.items()
        if tuple(own) != tuple(reference)
    ]
    if found and exact(pair):
        _refuse(found[0])
    return found


def exact(pair: Pair) -> bool:
    """Whether lanes that batch their tokens differently must still agree."""
    return pair.environment.dtype == "float32"


def _first_difference(own: Sequence[int], reference: Sequence[int]) -> int:
    pairs = enumerate(zip(own, reference, strict=False))
    return next((i for i, (ours, theirs) in pairs if ours != theirs), min(len(own), len(reference)))


def _divergence(
    pair: Pair,
    lane: str,
    kind: str,
    prompt_ids: Sequence[int],
    position: int,
    reference: Sequence[int],
) -> Divergence:
    margin = _margin(pair, [*prompt_ids, *reference[:position]])
    return Divergence(lane=lane, kind=kind, position=position, margin=margin)


def _margin(pair: Pair, ids: Sequence[int]) -> float:
    import torch

    step = pair.target_step(len(ids))
    logits = step.feed(torch.tensor(ids, device=step.device), 1)
    first, second = logits[0].topk(2).values.tolist()
    return first - second


def _refuse(found: Divergence) -> Never:
    raise PairError(
        f"The lane {found.lane!r} left the words of plain decoding at token {found.position + 1} "
        f"of the {found.kind} prompt, where the target's two likeliest tokens are "
        f"{found.margin:.2g} apart.",
        remedy="Try the library step; if it differs too, bench another pair.",
    )

"""Find where a benchmarked engine diverges from plain decoding, and whether it was a near tie.

A lane is an engine with a method. In float32, the lanes of specviz and of transformers must write
identical text, or the bench fails. In half precision, lanes that batch tokens differently round
differently. If two tokens are almost equally likely, two lanes may then choose different ones, so
the bench only reports the divergence. llama.cpp rounds differently from specviz in every dtype, so
its divergences are only reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Never

from specviz.errors import PairError
from specviz.record.token_text import common_prefix
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair


class Divergence(Value):
    lane: str
    kind: str  # of the prompt
    position: int  # of the first token that differs, from 0
    margin: float  # there: largest logit of the target - second largest


def divergences(
    pair: Pair,
    kind: str,
    prompt_ids: Sequence[int],
    texts: Mapping[str, Sequence[int]],
    reference: Sequence[int],
    strict: Set[str],
) -> list[Divergence]:
    """Return the first difference of every lane whose text differs from ``reference``.

    Args:
        texts: The token ids that each lane wrote, by lane name.
        strict: The names of the lanes that must not differ.

    Raises:
        PairError: A lane in ``strict`` differs.
    """
    found = [
        _divergence(pair, lane, kind, prompt_ids, common_prefix(own, reference), reference)
        for lane, own in texts.items()
        if tuple(own) != tuple(reference)
    ]
    for each in found:
        if each.lane in strict:
            _refuse(each)
    return found


def exact(pair: Pair) -> bool:
    """Return whether the pair is in float32, where batching tokens differently changes no text."""
    return pair.environment.dtype == "float32"


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
        f"The lane {found.lane!r} diverged from plain decoding at token {found.position + 1} "
        f"of the {found.kind} prompt, where the logits of the target's two likeliest tokens differ "
        f"by {found.margin:.2g}.",
        remedy="Try `--step library`; if the lane still diverges, bench another pair.",
    )

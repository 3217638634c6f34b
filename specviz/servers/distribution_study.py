"""Studies of a locally loaded model: its distributions along a text, and how it tokenizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specviz.errors import ServerError
from specviz.record.pairs import PairSpec
from specviz.theory.listed_distributions import ListedDistribution
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair


class DistributionStudy(Value):
    """Work for a loaded model: yield its distribution at every token of a text.

    ``top``: number of most likely tokens to list; None for all.
    """

    prompt_ids: tuple[int, ...]
    text_ids: tuple[int, ...]
    top: int | None
    label: str = "computing the draft's distributions"

    def find(self, pair: Pair) -> Iterator[ListedDistribution]:
        from specviz.engine.decoding.scoring import distributions_along

        if (largest := max(self.prompt_ids + self.text_ids, default=0)) >= pair.vocabulary:
            raise ServerError(
                f"The text has token id {largest}; the draft has {pair.vocabulary:,} tokens.",
                remedy="Choose a draft with the target's tokenizer.",
            )
        count = pair.vocabulary if self.top is None else min(self.top, pair.vocabulary)
        own = iter(self.text_ids)
        for window in distributions_along(pair, self.prompt_ids, self.text_ids):
            listed = window.topk(count, dim=-1)
            for row, ids, logprobs in zip(window, listed.indices, listed.values, strict=True):
                yield ListedDistribution(
                    ids.numpy(), logprobs.double().numpy(), float(row[next(own)]),
                    whole=count == pair.vocabulary,
                )  # fmt: skip


class TokenStudy(Value):
    """Work for a loaded model: yield a text's token ids, then the texts of the vocabulary."""

    text: str
    label: str = "tokenizing with the draft"

    def find(self, pair: Pair) -> Iterator[tuple[int, ...] | tuple[str, ...]]:
        from specviz.engine.model.chat import encode_prompt

        yield tuple(encode_prompt(pair, self.text, chat=False))
        yield pair.token_table.texts


def alone(place: str, like: PairSpec) -> PairSpec:
    """Return a pair that has only the target ``place``, without a draft.

    Device, dtype, step and threads are copied from ``like``.
    """
    return PairSpec(
        target=place, device=like.device, dtype=like.dtype, step=like.step, threads=like.threads
    )

"""Find the models that can draft for a target, by tokenizer, size and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specviz.errors import ModelFileError
from specviz.formats.heads import names_same_model
from specviz.formats.token_bytes import shared_share
from specviz.local_models.headers import Headers, token_bytes_of
from specviz.local_models.local_model import LocalModel
from specviz.record.pairs import memory_margin
from specviz.values import Value

LEAST_SHARE = 0.5  # of the target's tokens: a draft that shares fewer is left out
_LEAST_RATIO = 1.5  # target parameters / draft parameters: larger drafts cost more than they save


class Fit(Value):
    """A draft that can be used for a target, and how well it fits."""

    model: LocalModel
    share: float | None  # of the target's tokens; 1 with the same tokenizer, None if not compared
    ratio: float  # parameters of the target over those of the draft
    fits: bool | None  # both models fit into memory; None if the free memory is unknown
    alpha: float | None  # measured in an earlier run of this pair

    @property
    def same_tokenizer(self) -> bool:
        return self.share == 1.0


def drafts_for(
    target: LocalModel,
    models: Sequence[LocalModel],
    headers: Headers,
    *,
    itemsize: int | None,
    memory_free: int | None,
    alphas: Mapping[tuple[str, str], float],
) -> tuple[Fit, ...]:
    """Return the heads and smaller models that can draft for a target, the best first.

    Only cached tokenizer comparisons are used; ``compare_tokenizers`` computes missing comparisons.

    Args:
        itemsize: Bytes per weight, as in ``ModelFacts.memory``.
        alphas: Measured acceptance rates, by the ``place`` of the target and of the draft.
    """
    found = [
        Fit(
            model=model,
            share=_share(target, model, headers),
            ratio=target.facts.parameters / max(1, model.facts.parameters),
            fits=_fits(target, model, itemsize, memory_free),
            alpha=alphas.get((target.place, model.place)),
        )
        for model in (*_heads_for(target, models), *_smaller(target, models))
    ]
    fitting = [each for each in found if each.share is None or each.share >= LEAST_SHARE]
    return tuple(sorted(fitting, key=_rank))


def _heads_for(target: LocalModel, models: Sequence[LocalModel]) -> Iterator[LocalModel]:
    """Yield the heads whose files name this target."""
    for each in models:
        if each.facts.is_head and names_same_model(each.facts.made_for, target.name):
            yield each


def _smaller(target: LocalModel, models: Sequence[LocalModel]) -> Iterator[LocalModel]:
    for each in models:
        small = 0 < each.facts.parameters * _LEAST_RATIO <= target.facts.parameters
        if each.place != target.place and small and not each.facts.is_head:
            yield each


def last_part(name: str) -> str:
    """Return the last part of a Hub id or path, in lower case."""
    return name.rstrip("/").rpartition("/")[2].lower()


def _share(target: LocalModel, draft: LocalModel, headers: Headers) -> float | None:
    if draft.facts.is_head:
        return 1.0  # a head works with the target's own tokens
    prints = [headers.known_fingerprint(each.tokenizer) for each in (target, draft)]
    if not all(prints):
        return None
    return headers.known_share(str(prints[0]), str(prints[1]))


def _fits(
    target: LocalModel, draft: LocalModel, itemsize: int | None, memory_free: int | None
) -> bool | None:
    if memory_free is None:
        return None
    needed = target.facts.memory(itemsize) + draft.facts.memory(itemsize)
    return memory_margin(needed) <= memory_free


def _rank(fit: Fit) -> tuple[object, ...]:
    """Return the key by which drafts are sorted, the best first.

    Drafts that do not fit into memory come last. Drafts that fit and drafts that do not fit are
    each sorted by three values: more shared tokens come first, then a higher measured acceptance,
    then a smaller draft.
    """
    return fit.fits is False, -(fit.share or 0), -(fit.alpha or 0), -fit.ratio


def compare_tokenizers(
    target: LocalModel, models: Sequence[LocalModel], headers: Headers
) -> Iterator[int]:
    """Compute and cache the shares of shared tokens that ``drafts_for`` uses.

    Before each comparison, yield the number of models still to compare. A comparison takes up to a
    second, so a page runs this generator in a thread.
    """
    drafts = list(_smaller(target, models))
    own = headers.fingerprint(target.tokenizer)
    tokens = None
    for left, draft in zip(range(len(drafts), 0, -1), drafts, strict=True):
        yield left
        theirs = headers.fingerprint(draft.tokenizer)
        if own and theirs and headers.known_share(own, theirs) is None:
            try:
                tokens = tokens or token_bytes_of(target.tokenizer)
                share = shared_share(tokens, token_bytes_of(draft.tokenizer))
            except ModelFileError:
                continue
            headers.keep_share(own, theirs, share)
    headers.save()

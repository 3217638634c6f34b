"""Check a pair before loading it: will it work, how large is it, what is still to fetch?

Configurations, tokenizers and the headers of weights that are here; nothing more is read
and no weights are fetched. What is wrong with a pair is told as ``load_pair`` tells it.
"""

from __future__ import annotations

from specviz.engine import hardware, sources
from specviz.engine.libraries import quiet_libraries
from specviz.engine.opening import OpenPair, Side, open_pair, tell_nobody
from specviz.pairing import ModelCheck, PairCheck, PairSpec, Tell


def check_pair(spec: PairSpec, tell: Tell | None = None) -> PairCheck:
    """What the pair would be; an exception raised by ``tell`` stops the check."""
    tell = tell or tell_nobody
    with quiet_libraries():
        opened = open_pair(spec, spec.needs_draft, tell)
        target, *drafts = [_check_model(side, tell) for side in opened.sides]
    return PairCheck(
        target=target,
        draft=drafts[0] if drafts else None,
        vocabulary=opened.vocabulary,
        memory_needed=_memory_needed(opened),
        memory_free=hardware.free_memory(opened.device),
        notices=opened.notices,
    )


def _check_model(side: Side, tell: Tell) -> ModelCheck:
    missing = sources.bytes_to_fetch(side.source, tell)
    if not missing:
        sources.weight_files(side.source)
    return ModelCheck(
        name=side.source.name,
        family=side.source.family,
        parameters=side.parameters,
        bytes_to_fetch=missing,
    )


def _memory_needed(opened: OpenPair) -> int:
    return sum(side.parameters for side in opened.sides) * opened.dtype.itemsize

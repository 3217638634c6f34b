"""Open a head of any kind from its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specviz.engine.heads.dflash import open_dflash
from specviz.engine.heads.eagle import open_eagle
from specviz.engine.heads.head import Head, TargetParts
from specviz.engine.heads.medusa import open_medusa
from specviz.formats.heads import HeadFacts


def open_head(facts: HeadFacts, target: TargetParts) -> Head:
    """Return a head with its weights, checked against the target.

    Raises:
        ModelFileError: The files are damaged or not supported.
        PairError: The head does not fit the target.
    """
    return _OPEN[facts.kind](facts, target)


_OPEN: Mapping[str, Callable[[HeadFacts, TargetParts], Head]] = {
    "eagle": open_eagle,
    "eagle3": open_eagle,
    "medusa": open_medusa,
    "dflash": open_dflash,
}

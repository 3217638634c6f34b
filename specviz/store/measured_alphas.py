"""The acceptance rates of earlier runs, by the models of the pair."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from specviz.errors import StoreError
from specviz.store.library import Library
from specviz.store.rows import Query

_JOINED = " + "  # separates target and draft in a pair's name


def measured_alphas(
    weights: str = "", library: Library | None = None
) -> dict[tuple[str, str], float]:
    """Return the mean observed acceptance rate of earlier runs, by (target name, draft name).

    The result is empty if the library cannot be read.

    Only runs with the lossless rule count, because acceptance rates differ between rules.

    Args:
        weights: ``PairSpec.chosen_weights`` of the pairs; only runs with these weights count.
            Runs stored before the library recorded weights count as "" (weights as stored).
        library: Where to look; by default the library of the data folder, with all runs.
    """
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    try:
        rows = (library or Library()).find(Query(drafters=("model",), rules=("lossless",)))
    except StoreError:
        return {}
    for row in rows:
        target, joined, draft = row.summary.pair.partition(_JOINED)
        alpha = row.summary.alpha_observed
        if joined and alpha is not None and (row.summary.weights or "") == weights:
            found[target, draft].append(alpha)
    return {pair: fmean(rates) for pair, rates in found.items()}

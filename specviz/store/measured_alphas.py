"""The acceptance rates of earlier runs, by the models of the pair."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from specviz.errors import StoreError
from specviz.store.library import Library
from specviz.store.rows import Query

_JOINED = " + "  # between the names of target and draft


def measured_alphas() -> dict[tuple[str, str], float]:
    """Return the mean observed acceptance rate by target and draft; empty without a library.

    Only runs with the lossless rule of the papers count: other rules accept other shares.
    """
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    try:
        rows = Library().find(Query(drafters=("model",), rules=("lossless",)))
    except StoreError:
        return {}
    for row in rows:
        target, joined, draft = row.summary.pair.partition(_JOINED)
        if joined and row.summary.alpha_observed is not None:
            found[target, draft].append(row.summary.alpha_observed)
    return {pair: fmean(rates) for pair, rates in found.items()}

"""Alpha as a function of temperature.

Alpha at a position is sum min(draft, target), the overlap of the two distributions at their
temperatures (Leviathan et al. 2023, corollary 3.6). Alpha tends to 1 as both temperatures grow. At
temperature 0 alpha is 1 if the likeliest tokens agree and 0 if not. In between, alpha may rise and
fall, and the draft's best temperature may differ from the target's (derived here).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specviz.errors import ConfigError

Logits = Sequence[float] | NDArray[np.float64]

# Search grid for a draft's best temperature. It extends far above usual temperatures: for a draft
# more confident than its target, the best temperature is a multiple of the target's. Values are
# rounded to hundredths, so that pages show the best value exactly.
DRAFT_TEMPERATURES = tuple(
    round(float(each), 2) for each in (*np.linspace(0.0, 1.0, 101), *np.geomspace(1.01, 30.0, 340))
)


def softened(logits: Logits, temperature: float) -> NDArray[np.float64]:
    """Return softmax(logits / temperature); at temperature 0, uniform over the likeliest tokens."""
    assert temperature >= 0.0, temperature
    values = np.asarray(logits, dtype=np.float64)
    if not values.size or not np.isfinite(values.max()):
        raise ConfigError(
            "The logits contain no finite number.", remedy="Give one logit per token."
        )
    values = values - values.max()
    with np.errstate(over="ignore"):  # near temperature 0, -inf is correct
        grown = np.exp(values / temperature) if temperature > 0.0 else (values == 0.0) * 1.0
    return grown / grown.sum()


def overlap(
    draft_logits: Logits,
    target_logits: Logits,
    temperature: float,
    draft_temperature: float | None = None,
) -> float:
    """Return alpha at one position, sum min(draft, target).

    ``draft_temperature`` defaults to ``temperature``.
    """
    if len(draft_logits) != len(target_logits):
        raise ConfigError(
            f"{len(draft_logits)} draft logits, {len(target_logits)} target logits.",
            remedy="Use the same vocabulary for both models.",
        )
    drawn_at = temperature if draft_temperature is None else draft_temperature
    draft, target = softened(draft_logits, drawn_at), softened(target_logits, temperature)
    return float(np.minimum(draft, target).sum())


def overlaps(
    draft_logits: Logits,
    target_logits: Logits,
    draft_temperatures: Sequence[float],
    temperatures: Sequence[float],
) -> NDArray[np.float64]:  # [num_draft_temperatures, num_temperatures]
    """Return `overlap` for every pair of a draft temperature and a target temperature."""
    drafts = np.array([softened(draft_logits, each) for each in draft_temperatures])
    targets = np.array([softened(target_logits, each) for each in temperatures])
    return np.minimum(drafts[:, None], targets[None]).sum(axis=-1)


def best_draft_temperature(
    draft_logits: Logits, target_logits: Logits, temperature: float
) -> tuple[float, float]:
    """Return the draft temperature with the greatest overlap, and this overlap (derived here).

    The search covers `DRAFT_TEMPERATURES` and the target's temperature, which wins a tie.
    """
    candidates = (temperature, *DRAFT_TEMPERATURES)
    found = overlaps(draft_logits, target_logits, candidates, (temperature,))[:, 0]
    best = int(np.argmax(found))
    return candidates[best], float(found[best])

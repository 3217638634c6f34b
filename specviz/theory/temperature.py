"""How temperature moves acceptance: both laws sharpened or flattened, and then overlapped.

Alpha at a position is the overlap of draft and target (Leviathan et al. 2023, corollary 3.6).
It tends to 1 as both temperatures grow, and at 0 it is 1 or 0 as the likeliest tokens agree or
not; between, it need not rise or fall steadily, and the draft's best temperature need not be
the target's (worked out here).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specviz.errors import ConfigError

Logits = Sequence[float] | NDArray[np.float64]

# Among these a draft's best temperature is looked for. They reach far above any that a text is
# written at: a draft surer than its target does best at a multiple of the target's temperature.
# Rounded to hundredths, so that the best is exactly the one that is printed.
DRAFT_TEMPERATURES = tuple(
    round(float(each), 2) for each in (*np.linspace(0.0, 1.0, 101), *np.geomspace(1.01, 30.0, 340))
)


def softened(logits: Logits, temperature: float) -> NDArray[np.float64]:
    """softmax(logits / temperature); at 0 its limit, the likeliest tokens in equal shares."""
    assert temperature >= 0.0, temperature
    values = np.asarray(logits, dtype=np.float64)
    if not values.size or not np.isfinite(values.max()):
        raise ConfigError("The logits hold no finite number.", remedy="Give one for each token.")
    values = values - values.max()
    with np.errstate(over="ignore"):  # close to 0: minus infinity is right there
        grown = np.exp(values / temperature) if temperature > 0.0 else (values == 0.0) * 1.0
    return grown / grown.sum()


def overlap(
    draft_logits: Logits,
    target_logits: Logits,
    temperature: float,
    draft_temperature: float | None = None,
) -> float:
    """Alpha at this position, sum of min(draft, target); the draft may have its own temperature."""
    if len(draft_logits) != len(target_logits):
        raise ConfigError(
            f"{len(draft_logits)} draft logits, {len(target_logits)} target logits.",
            remedy="Give both models the same tokens.",
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
    """`overlap` at every draft temperature and every target temperature."""
    drafts = np.array([softened(draft_logits, each) for each in draft_temperatures])
    targets = np.array([softened(target_logits, each) for each in temperatures])
    return np.minimum(drafts[:, None], targets[None]).sum(axis=-1)


def best_draft_temperature(
    draft_logits: Logits,
    target_logits: Logits,
    temperature: float,
    among: Sequence[float] = DRAFT_TEMPERATURES,
) -> tuple[float, float]:
    """The draft temperature with the greatest overlap, and that overlap (worked out here).

    Of ``among`` and the target's own temperature, which wins a tie.
    """
    candidates = (temperature, *among)
    found = overlaps(draft_logits, target_logits, candidates, (temperature,))[:, 0]
    best = int(np.argmax(found))
    return candidates[best], float(found[best])

"""The exact distribution of rejections along a known text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rejections_along(odds: Sequence[float], gamma: int) -> tuple[float, float]:
    """Return mean and variance of rejections in runs that emit this text, cut rounds included."""
    first, second = np.zeros(gamma + 1), np.zeros(gamma + 1)  # moments, by accepted so far
    for chance in reversed(odds):
        bonus = first[0], second[0]
        after = np.array([1.0 + first[0], 1.0 + 2.0 * first[0] + second[0]])
        first = np.append(chance * first[1:] + (1.0 - chance) * after[0], bonus[0])
        second = np.append(chance * second[1:] + (1.0 - chance) * after[1], bonus[1])
    return float(first[0]), float(second[0] - first[0] ** 2)

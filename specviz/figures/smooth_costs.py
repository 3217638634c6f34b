"""Smooth a step-cost table that has few samples of each cost.

For a large model there is time for only one or two samples of each verification. But verifications
of similar numbers of tokens cost about the same: log v rises linearly with the number of tokens,
and jumps where the kernels begin another block of rows. A curve of this form is fitted robustly to
all rows of the table at once, so the error of the curve is much smaller than that of a single row.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specviz.record.step_costs import StepCosts
from specviz.theory.student import t_quantile

Floats = NDArray[np.float64]

_STEPS = (2, 7, 13)  # tokens at which matrix products begin another block of six rows
_HUBER = 1.345  # standard deviations from which a residual has less weight
_TURNS = 20


def smoothed(table: StepCosts) -> StepCosts:
    """Return the table. If it has few samples, a fitted curve replaces the verification times."""
    known = [
        tokens for tokens in range(2, len(table.target) + 1) if tokens not in table.interpolated
    ]
    if not table.sparse or len(known) <= 2 * (len(_STEPS) + 1):
        return table
    plain = np.array(table.target[0])
    logs = np.array([np.log(np.array(table.target[n - 1]) / plain).mean() for n in known])
    curve, errors = _fitted(np.array(known), logs, len(table.target))
    rows = tuple(tuple((math.exp(log) * plain).tolist()) for log in curve)
    return replace(
        table,
        target=(table.target[0], *rows),
        target_errors=(0.0, *errors.tolist()),  # plain steps are the unit of the others
        interpolated=(),
        samples=None,  # no warning about few samples: the errors include their effect
    )


def _fitted(known: NDArray[np.int64], logs: Floats, rows: int) -> tuple[Floats, Floats]:
    """Return log v for each number of tokens from 2 to ``rows``, and half-widths of 95 % intervals.

    The slope and all jumps except the first are at least 0: terms with a negative coefficient are
    left out.
    """
    terms = list(range(len(_STEPS) + 1))
    design, everywhere = _terms(known), _terms(np.arange(2, rows + 1))
    coefficients, scale = _robust_fit(design, logs)
    while falling := [t for t, c in zip(terms, coefficients, strict=True) if t != 1 and c < 0]:
        terms.remove(falling[-1])
        coefficients, scale = _robust_fit(design[:, terms], logs)
    freedom = len(known) - len(terms)
    spread = scale * math.sqrt(len(known) / freedom)
    wanted, used = everywhere[:, terms], design[:, terms]
    leverage = np.einsum("ij,jk,ik->i", wanted, np.linalg.pinv(used.T @ used), wanted)
    errors = t_quantile(0.975, freedom) * spread * np.sqrt(leverage)
    return wanted @ coefficients, np.asarray(errors, dtype=np.float64)


def _robust_fit(design: Floats, logs: Floats) -> tuple[Floats, float]:
    """Return the coefficients by Huber's method, and the scale of the residuals."""
    weights, scale = np.ones(len(logs)), 0.0
    coefficients: Any = np.zeros(design.shape[1])
    for _ in range(_TURNS):
        coefficients = np.linalg.lstsq(design * weights[:, None], logs * weights, rcond=None)[0]
        sizes = np.abs(logs - design @ coefficients)
        scale = max(1.4826 * float(np.median(sizes)), 1e-6)
        weights = np.sqrt(np.minimum(1.0, _HUBER * scale / np.maximum(sizes, 1e-12)))
    return coefficients, scale


def _terms(tokens: NDArray[np.int64]) -> Floats:
    """Return the terms of the curve at these numbers of tokens: the slope and the jumps.

    The result is the matrix of the regression, `[num_tokens, num_terms]`.
    """
    steps = [(tokens >= first).astype(np.float64) for first in _STEPS]
    slope = (tokens - 1).astype(np.float64)
    return np.stack([slope, *steps], axis=1)

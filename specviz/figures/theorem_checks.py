"""Check theorems of Yin et al. 2024 on recorded runs.

Theorem 1: under the lossless rule, the expected number of rejections is the sum of the distances
(total variation) between draft and target. Theorem 2: if the candidates of a chain are verified one
by one, no unbiased rule has fewer expected rejections. Theorem 5: over-acceptance with the leftover
residual trades rejections for bias. At every position, the rejection probability and the bias add
up to the distance.

All sums run over tested positions. Whether a position is tested is decided before its candidate is
drawn. Therefore observed - expected has mean 0 (it is a sum of martingale differences), although
the text depends on earlier draws. ``z`` is observed - expected in standard deviations; None if
nothing was random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specviz.errors import ConfigError, TraceError
from specviz.figures.acceptance import tested_in
from specviz.record.run_config import ResidualName
from specviz.record.trace import Candidate, Extra, Round, Trace
from specviz.values import Value

Numbers = NDArray[np.float64]

_ROUNDING = 1e-5  # a smaller bias comes from float32 sums, not from a rule
_TINY = 1e-30  # the smallest divisor; the probability of an emitted token is above it


class RejectionCheck(Value):
    """Theorem 1: rejections of lossless runs, observed and expected from the distances."""

    num_tokens: int  # emitted, bonus tokens included
    num_tested: int
    observed: int
    expected: float  # the sum of distances, which is also the bound of Theorem 2
    z: float | None


class LazierCheck(Value):
    """Theorem 2, for an unbiased rule with acceptance probability share * min(1, target/draft)."""

    share: float
    bound: float
    expected: float  # rejections of the lazier rule: never below the bound
    observed: int  # rejections of the runs, by the lossless rule
    z: float | None  # of the observed count, as if the lazier rule had run


class ParetoCheck(Value, eq=False):
    """Theorem 5: P(reject) and bias at each tested position; rejections observed and expected."""

    reject: Numbers  # [num_tested] probability of a rejection
    bias: Numbers  # [num_tested] bias of the emitted token
    distance: Numbers  # [num_tested] distance of draft and target
    observed: int
    expected: float
    z: float | None

    @property
    def num_tested(self) -> int:
        return len(self.reject)

    @property
    def gap(self) -> Numbers:
        """reject + bias - distance at each position."""
        return self.reject + self.bias - self.distance

    @property
    def mean_reject(self) -> float:
        return float(self.reject.mean())

    @property
    def mean_bias(self) -> float:
        return float(self.bias.mean())

    @property
    def mean_distance(self) -> float:
        return float(self.distance.mean())

    @property
    def largest_gap(self) -> float:
        """The largest absolute gap."""
        return float(np.abs(self.gap).max())


class BiasCheck(Value):
    """The bias measured on the emitted tokens, and the recorded bias."""

    num_tokens: int  # emitted at tested positions
    measured: float
    standard_error: float
    expected: float  # mean of the recorded biases
    z: float | None


def rejection_count(traces: Sequence[Trace]) -> RejectionCheck:
    """Check theorem 1 on lossless runs.

    Raises:
        ConfigError: A run is lossy or greedy, or no candidate was tested.
    """
    _expect_lossless(traces)
    tested = _expect_tested(traces)
    probs = _rejection_probs(tested)
    return RejectionCheck(
        num_tokens=sum(len(trace.token_ids) for trace in traces),
        num_tested=len(tested),
        observed=_rejections(tested),
        expected=float(probs.sum()),
        z=_z(_rejections(tested), probs),
    )


def lazier(traces: Sequence[Trace], share: float) -> LazierCheck:
    """Check theorem 2: compare the recorded rejections with those expected of a lazier rule.

    An unbiased rule accepts with probability at most min(1, target/draft) (Corollary 1). The lazier
    rule accepts with ``share`` times this probability, and its residual keeps the rule unbiased.
    The expected number of its rejections is computed from the recorded probabilities.
    """
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"The share is {share}.", remedy="Give a number from 0 to 1.")
    check = rejection_count(traces)
    probs = 1.0 - share * (1.0 - _rejection_probs(_expect_tested(traces)))
    return LazierCheck(
        share=share,
        bound=check.expected,
        expected=float(probs.sum()),
        observed=check.observed,
        z=_z(check.observed, probs),
    )


def pareto(traces: Sequence[Trace]) -> ParetoCheck:
    """Check theorem 5 on over-acceptance runs.

    The check returns the gap, reject + bias - distance, at every position. With the leftover
    residual, the gap is 0. With another residual, the gap can be larger.
    """
    _expect_lossy(traces)
    tested = _expect_tested(traces)
    probs = _rejection_probs(tested)
    losses = np.array([_overlap_and_bias(each) for each in tested])
    return ParetoCheck(
        reject=probs,
        bias=losses[:, 1],
        distance=1.0 - losses[:, 0],
        observed=_rejections(tested),
        expected=float(probs.sum()),
        z=_z(_rejections(tested), probs),
    )


def measured_bias(traces: Sequence[Trace]) -> BiasCheck:
    """Measure the bias of over-acceptance runs on the emitted tokens.

    The bias at a position is the distance between the target and ``out``, the distribution of the
    emitted token x (Yin et al. 2024, section 4). It equals the mean of max(0, 1 - target(x) /
    out(x)) over draws of x. So the average of this term over the emitted tokens is an unbiased
    estimate of the mean bias (derived here).
    """
    _expect_lossy(traces)
    estimates, recorded = (
        np.concatenate(each) for each in zip(*map(_bias_estimates, traces), strict=True)
    )
    if not len(estimates):
        raise _nothing_tested()
    error = math.sqrt(float(((estimates - recorded) ** 2).sum()))
    return BiasCheck(
        num_tokens=len(estimates),
        measured=float(estimates.mean()),
        standard_error=error / len(estimates),
        expected=float(recorded.mean()),
        z=float((estimates - recorded).sum()) / error if recorded.max() > _ROUNDING else None,
    )


def emitted_distribution(
    draft: Numbers,
    target: Numbers,
    epsilon: float,
    residual: ResidualName,
    reject: Numbers,
    overlap: Numbers,
) -> Numbers:
    """Return the probabilities `[...]` with which over-acceptance emits the given tokens.

    ``draft`` and ``target`` are the probabilities of these tokens under the two models.

    In Yin et al. 2024, section 4.2, the rule with the residual "leftover" is called OPT. The rule
    with the residual "target" is called UNO.
    """
    accepted = np.minimum(draft, target + epsilon)
    if residual == "target":
        return accepted + reject * target
    if residual == "draft":
        return accepted + reject * draft
    left = 1.0 - overlap  # the leftover's mass: never below ``reject``
    share = np.where(left > 0.0, np.minimum(1.0, reject / np.maximum(left, _TINY)), 0.0)
    return accepted + share * np.maximum(0.0, target - draft)


# Reading the record


def _rejection_probs(tested: Sequence[Candidate]) -> Numbers:  # [num_tested]
    # Sums of float32 probabilities can slightly exceed 1.
    return 1.0 - np.array([each.expected_acceptance for each in tested]).clip(0.0, 1.0)


def _rejections(tested: Sequence[Candidate]) -> int:
    return sum(each.verdict == "rejected" for each in tested)


def _z(observed: int, probs: Numbers) -> float | None:
    """Return the z-score of a count of events with these probabilities; None without variance."""
    deviation = math.sqrt(float((probs * (1.0 - probs)).sum()))
    return (observed - float(probs.sum())) / deviation if deviation else None


def _overlap_and_bias(candidate: Candidate) -> tuple[float, float]:
    if candidate.overlap is None or candidate.bias is None:
        raise ConfigError(
            "One run did not record its bias.", remedy="Run it again with recording on."
        )
    return min(1.0, candidate.overlap), candidate.bias


def _emitted(entry: Round, candidate: Candidate) -> tuple[float, float]:
    """Return the draft and target probability of the token that a tested position emitted."""
    token: Candidate | Extra | None = candidate
    if candidate.verdict == "rejected":
        token = entry.extra
    if token is None or token.draft_prob is None:
        raise TraceError(
            f"Round {entry.index + 1} has a rejection but no recovered token.",
            remedy="Save the run again, or take another copy.",
        )
    return token.draft_prob, token.target_prob


def _bias_estimates(trace: Trace) -> tuple[Numbers, Numbers]:  # [num_tested] each
    """Return the bias estimated from each emitted token, and the recorded bias at its position."""
    tested = tested_in(trace.rounds)
    tokens = [_emitted(entry, each) for entry in trace.rounds for each in tested_in([entry])]
    probs = np.array(tokens).reshape(-1, 2)
    losses = np.array([_overlap_and_bias(each) for each in tested]).reshape(-1, 2)
    config, (draft, target) = trace.config, probs.T
    reject = _rejection_probs(tested)
    emitted = emitted_distribution(
        draft, target, config.epsilon, config.residual, reject, losses[:, 0]
    )
    emitted = np.maximum(emitted, _TINY)
    return np.maximum(0.0, (emitted - target) / emitted), losses[:, 1]


# Checks


def _expect_tested(traces: Sequence[Trace]) -> list[Candidate]:
    tested = [each for trace in traces for each in tested_in(trace.rounds)]
    if not tested:
        raise _nothing_tested()
    return tested


def _nothing_tested() -> ConfigError:
    return ConfigError("No candidate was tested.", remedy="Run for more tokens.")


def _expect_lossless(traces: Sequence[Trace]) -> None:
    if any(not trace.config.by_odds for trace in traces):
        raise ConfigError(
            "Theorem 1 needs the lossless rule and one chain. One run has another rule or a tree.",
            remedy="Choose the lossless rule and one chain.",
        )
    if any(trace.config.greedy for trace in traces):
        raise ConfigError(
            "One run is greedy: its verdicts are not random.",
            remedy="Give a temperature above 0.",
        )


def _expect_lossy(traces: Sequence[Trace]) -> None:
    if not traces:
        raise _nothing_tested()
    if any("residual" not in trace.config.judging.takes for trace in traces):
        raise ConfigError(
            "One run does not use over-acceptance, so it does not trade bias for rejections.",
            remedy="Choose the over-acceptance rule.",
        )

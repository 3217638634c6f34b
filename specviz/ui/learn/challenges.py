"""Eleven challenges in three levels. A check of the user's runs decides if a challenge is solved.

A new challenge needs an entry in ``CHALLENGES``, a check and a text file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, groupby, pairwise
from statistics import mean

import numpy as np

from specviz.record.pairs import DEFAULT_PAIR, EMBEDDED_HEADS
from specviz.record.trace import Round
from specviz.ui.learn.checks import Attempt, CheckResult, Fits, Task, no, yes
from specviz.ui.learn.steps import loses
from specviz.ui.session.history import ShownRun

_BIAS = 0.02  # least mean bias for which the distribution counts as changed
_EMBEDDED = {f"{DEFAULT_PAIR}/draft", *EMBEDDED_HEADS}  # the names of the embedded drafts
_SAME_TOKENS = 32  # least number of tokens for which two equal texts count


def _warm(run: ShownRun) -> bool:
    return run.trace.config.temperature >= 1.0


def _has_no_draft(run: ShownRun) -> bool:
    return not run.trace.config.draft_method.needs_draft


def _whole(run: ShownRun) -> list[Round]:
    return [entry for entry in run.trace.rounds if entry.whole]


def _all_accepted(attempt: Attempt) -> CheckResult:
    most = max((each.num_accepted for run in attempt.runs for each in _whole(run)), default=0)
    return yes(most=most) if most >= 6 else no("few", most=most)


def _first_rejected(attempt: Attempt) -> CheckResult:
    longest = max((max(_rejected_in_a_row(run), default=0) for run in attempt.runs), default=0)
    return yes(longest=longest) if longest >= 3 else no("few", longest=longest)


def _rejected_in_a_row(run: ShownRun) -> Iterator[int]:
    """Yield the length of each streak of rounds whose first candidate was rejected."""
    rejected = ("rejected" in [each.verdict for each in e.candidates[:1]] for e in run.trace.rounds)
    return (len(list(each)) for is_rejected, each in groupby(rejected) if is_rejected)


def _tau(attempt: Attempt, fits: Fits, least: float) -> CheckResult:
    best = max((run.figures.tau or 0.0 for run in attempt.runs if fits(run)), default=0.0)
    if best >= least:
        return yes(tau_tokens=best)
    return no("few" if best else "none", tau_tokens=best)


def _half_c(attempt: Attempt) -> CheckResult:
    known = [run.figures.c for run in attempt.runs if run.figures.c is not None]
    if not any(later <= 0.55 * former for former, later in pairwise(known)):
        return no("none")
    return yes() if attempt.answer == "rises" else no("wrong" if attempt.answer else "say")


def _depends(attempt: Attempt) -> CheckResult:
    run = attempt.newest(lambda run: not run.trace.config.exact)
    tested = [c for e in run.trace.rounds for c in e.candidates if c.tested] if run else []
    known = [each.bias for each in tested if each.bias is not None]
    if not known:
        return no("exact")
    bias = round(mean(known), 3)
    return yes(bias=bias) if bias >= _BIAS else no("few", bias=bias)


def _tail(attempt: Attempt) -> CheckResult:
    found = sorted((run.trace.config.gamma, *_gaps_ms(run)) for run in attempt.runs if _whole(run))
    for (low, mean_low, tail_low), (high, mean_high, tail_high) in combinations(found, 2):
        if low < high and mean_high < mean_low and tail_high > tail_low:
            return yes(low=low, high=high, before_ms=mean_low, mean_ms=mean_high,
                       tail_before_ms=tail_low, tail_ms=tail_high)  # fmt: skip
    return no("both" if len({gamma for gamma, *_ in found}) > 1 else "none")


def _gaps_ms(run: ShownRun) -> tuple[float, float]:
    """Return the mean and the 99th percentile of the times between tokens, in ms.

    The tokens of a round arrive together, so only the first token of a round has a time above 0.
    """
    each = [[1000 * entry.times.decode, *[0.0] * (len(entry.emitted) - 1)] for entry in _whole(run)]
    gaps = [gap for entry in each for gap in entry]
    return mean(gaps), float(np.quantile(gaps, 0.99))


def _same(attempt: Attempt, fits: Fits) -> CheckResult:
    """Check whether two runs with equal prompt and seed but different γ wrote the same tokens."""
    result = no("none")
    for one, other in combinations([run.trace for run in attempt.runs if fits(run)], 2):
        alike = one.prompt == other.prompt and one.config.seed == other.config.seed
        if not alike or one.config.gamma == other.config.gamma:
            continue
        count = min(len(one.token_ids), len(other.token_ids))
        if count >= _SAME_TOKENS and one.token_ids[:count] == other.token_ids[:count]:
            return yes(count=count, one=one.config.gamma, other=other.config.gamma)
        result = no("parted")
    return result


def _trained(attempt: Attempt) -> CheckResult:
    """Check whether the user's own draft gives a greater speedup than a draft shipped with specviz.

    Two runs are compared only if they have the same temperature and the same target at the same
    size.
    """
    runs = [run for run in attempt.runs if _draft_name(run) and _is_timed(run)]
    box = [run for run in runs if _draft_name(run) in _EMBEDDED]
    own = [run for run in runs if _draft_name(run) not in _EMBEDDED]
    if not own or not box:
        return no("no_box" if own else "none")
    pairs = [(one, other) for one in own for other in box if _alike(one, other)]
    if not pairs:
        return no("unlike")
    mine, theirs = max(pairs, key=lambda pair: _speedup(pair[0]) - _speedup(pair[1]))
    ours, other = _speedup(mine), _speedup(theirs)
    if ours <= other:
        return no("slower", own_times=ours, box_times=other)
    return yes(own_times=ours, box_times=other)


def _is_timed(run: ShownRun) -> bool:
    return run.figures.speedup_observed is not None and not run.so_far


def _draft_name(run: ShownRun) -> str:
    """Return the name of the draft that a run used; empty if the run used no draft."""
    draft = run.trace.pair.draft
    method = run.trace.config.draft_method
    used = draft is not None and (method.needs_draft or method.needs_head)
    return draft.name if used and draft is not None else ""


def _alike(one: ShownRun, other: ShownRun) -> bool:
    targets = [run.trace.pair.target for run in (one, other)]
    same_weights = targets[0].weights_sha256 == targets[1].weights_sha256
    same_size = targets[0].body == targets[1].body
    heat = [run.trace.config.temperature for run in (one, other)]
    return same_weights and same_size and heat[0] == heat[1]


def _speedup(run: ShownRun) -> float:
    return run.figures.speedup_observed or 0.0


CHALLENGES = (
    Task(name="slower", level=1, check=loses),
    Task(name="all_stand", level=1, check=_all_accepted),
    Task(name="fall", level=1, check=_first_rejected),
    Task(name="same_greedy", level=1, check=lambda a: _same(a, lambda r: r.trace.config.greedy)),
    Task(name="tau", level=2, check=lambda attempt: _tau(attempt, _warm, 5.0)),
    Task(name="half_c", level=2, check=_half_c, asks="choice"),
    Task(name="no_draft", level=2,
         check=lambda attempt: _tau(attempt, _has_no_draft, 2.0)),
    Task(name="depends", level=3, check=_depends),
    Task(name="tail", level=3, check=_tail),
    Task(name="same_warm", level=3, check=lambda attempt: _same(attempt, _warm)),
    Task(name="trained", level=3, check=_trained),
)  # fmt: skip

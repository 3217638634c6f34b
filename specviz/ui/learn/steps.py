"""The eight steps of the lesson and their checks.

A new step needs an entry in ``STEPS``, a check and a text file.
"""

from __future__ import annotations

from statistics import median

from specviz.theory.speed import speedup
from specviz.ui.learn.checks import Attempt, CheckResult, Task, no, yes
from specviz.ui.session.history import ShownRun

ENOUGH_DRAWS = 2_000
_ALIKE = 3.0  # least ratio of parameters that shows the effect of a larger target
_NEAR = 0.02


def _memory(attempt: Attempt) -> CheckResult:
    if not attempt.runs:
        return no("none")
    timed = {run.trace.pair.target.parameters: target_alone_ms(run) for run in attempt.runs}
    known = {size: ms for size, ms in timed.items() if ms is not None}
    if known and max(known) >= _ALIKE * min(known):
        return _compared_sizes(known)
    run = attempt.runs[-1]
    ms, size = target_alone_ms(run), run.trace.pair.target.parameters
    return yes(
        "done" if ms else "measuring" if run.growing else "untimed",
        size=float(size), passes=len(run.trace.rounds), count=len(run.trace.token_ids),
        alone_ms=ms,
    )  # fmt: skip


def _compared_sizes(known: dict[int, float]) -> CheckResult:
    """Return a passed check that compares the target's speed at its smallest and largest size.

    Args:
        known: Milliseconds per token of the target alone, by the target's number of parameters.
    """
    small, large = min(known), max(known)
    fast, slow = known[small], known[large]
    return yes(
        "compared", small_size=float(small), large_size=float(large), fast_ms=fast, slow_ms=slow,
        bigger_times=large / small, slower_times=slow / fast,
    )  # fmt: skip


def target_alone_ms(run: ShownRun) -> float | None:
    """Return the milliseconds per token of the target alone; None until they are measured."""
    rate = run.figures.baseline_tokens_per_second
    return 1000 / rate if rate and not run.growing else None


def _drafting(attempt: Attempt) -> CheckResult:
    run = attempt.newest(lambda run: run.trace.config.gamma == 3 and len(run.trace.rounds) > 1)
    if run is None or attempt.answer is None:
        return no("count" if run else "none")
    second = run.trace.rounds[1]
    if attempt.answer != second.num_accepted:
        return no("wrong", answer=f"{attempt.answer:g}")
    return yes(drafted=second.num_drafted, accepted=second.num_accepted, got=len(second.emitted))


def by_gamma(attempt: Attempt) -> dict[int, ShownRun]:
    """Return the newest run for each γ.

    Only runs with a draft model count, and only if the speedup formulas apply to their settings.
    """
    configs = [(run.trace.config, run) for run in attempt.runs]
    chains = [
        each for each in configs if each[0].formulas_hold and each[0].draft_method.needs_draft
    ]
    return {config.gamma: run for config, run in chains}


def _one_pass(attempt: Attempt) -> CheckResult:
    runs = by_gamma(attempt)
    most = max(runs, default=0)
    if 1 not in runs or most < 8:
        return no("long" if 1 in runs else "short" if most >= 8 else "none")
    short, long = (_verify_ms(runs[gamma]) for gamma in (1, most))
    if runs[1].trace.pair != runs[most].trace.pair:
        return no("bodies")
    return yes(
        short_ms=short, long_ms=long, count=most + 1, more_times=(most + 1) / 2,
        ratio_times=long / short,
    )  # fmt: skip


def _verify_ms(run: ShownRun) -> float:
    return 1000 * median(entry.times.verify for entry in run.trace.rounds)


def _rejection(attempt: Attempt) -> CheckResult:
    run = attempt.newest(lambda run: run.trace.config.by_odds and not run.trace.config.greedy)
    candidates = [each for entry in run.trace.rounds for each in entry.candidates] if run else []
    rejected = next((each for each in candidates if each.verdict == "rejected"), None)
    if run is None or rejected is None:
        return no("none" if attempt.runs else "first")
    place = next(e.index for e in run.trace.rounds if rejected in e.candidates) + 1
    if attempt.answer is None or abs(attempt.answer - rejected.odds) > _NEAR:
        return no(
            "wrong" if attempt.answer is not None else "odds", answer=attempt.answer, round=place
        )
    return yes(odds=f"{rejected.odds:.2f}", draw=f"{rejected.uniform:.2f}")


def _residual(attempt: Attempt) -> CheckResult:
    if attempt.draws < ENOUGH_DRAWS or not attempt.answer:
        few = attempt.draws < ENOUGH_DRAWS
        return no(
            "draw" if few else "choose", draws=f"{attempt.draws:,}", enough=f"{ENOUGH_DRAWS:,}"
        )
    return yes() if attempt.answer == "leftover" else no("wrong")


def _gamma(attempt: Attempt) -> CheckResult:
    rated = {gamma: run.figures.tokens_per_second for gamma, run in by_gamma(attempt).items()}
    rates = {gamma: rate for gamma, rate in rated.items() if rate is not None}
    if len(rates) < 3 or attempt.answer is None:
        return no("which" if len(rates) >= 3 else "few", count=len(rates))
    if rates.get(int(attempt.answer), 0.0) < 0.95 * max(
        rates.values()
    ):  # within 5 % counts as best
        return no("wrong", answer=f"{attempt.answer:g}")
    low, high = (by_gamma(attempt)[end(rates)].figures.tau for end in (min, max))
    best = f"{attempt.answer:g}"
    return yes(best=best, low=min(rates), high=max(rates), low_tokens=low, high_tokens=high)


def costs_of(attempt: Attempt) -> tuple[float, int, float] | None:
    """Return the expected α, the γ and the v of the newest run with a known α and v, else None.

    v is the time of a verification pass, in target steps.
    """
    run = attempt.newest(lambda run: run.figures.alpha_expected and run.figures.v)
    if run is None or run.figures.alpha_expected is None or run.figures.v is None:
        return None
    return run.figures.alpha_expected, run.trace.config.gamma, run.figures.v


def _costs(attempt: Attempt) -> CheckResult:
    found = costs_of(attempt)
    if found is None and attempt.newest(lambda run: run.growing and run.figures.alpha_expected):
        return no("measuring")
    if found is None or attempt.answer is None:
        return no("none")
    gained = speedup(*found[:2], attempt.answer, found[2])
    if abs(gained - 1.0) > _NEAR:
        return no("faster" if gained > 1.0 else "slower", gained_times=gained)
    return yes(c_cost=float(attempt.answer), gamma=found[1])


def loses(attempt: Attempt) -> CheckResult:
    """Check whether one of the user's runs is slower than the target alone.

    If the speedup has an interval, the upper end of the interval must be below 1. A run counts only
    when the target alone has been timed.
    """
    highs = {
        run.id: run.figures.speedup_high or run.figures.speedup_observed
        for run in attempt.runs
        if not run.growing
    }
    run = attempt.newest(lambda run: (highs.get(run.id) or 1.0) < 1.0)
    if run is None and any(run.growing for run in attempt.runs):
        return no("measuring")
    if run is None and attempt.newest(lambda run: (run.figures.speedup_observed or 1.0) < 1.0):
        return no("unsure")
    if run is None:
        return no("faster" if any(highs.values()) else "none")
    return yes(speed_times=run.figures.speedup_observed)


STEPS = (
    Task(name="memory", check=_memory),
    Task(name="drafting", check=_drafting, asks="number", link={"gamma": "3"}),
    Task(name="one_pass", check=_one_pass, link={"gamma": "1", "target_body": "90M"}),
    Task(name="rejection", check=_rejection, asks="number", link={"gamma": "5"}),
    Task(name="residual", check=_residual, asks="draws", link={"temperature": "1.0"}),
    Task(name="gamma", check=_gamma, asks="number", link={"gamma": "2"}),
    Task(name="costs", check=_costs, asks="costs", link={"gamma": "5"}),
    Task(name="loses", check=loses, link={"temperature": "1.5"}),
)

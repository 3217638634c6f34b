"""What recorded runs of a chat model show about claims on tasks and on temperature."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.figures.recorded_methods import TaskPoint
from specviz.record.numbers import PROBABILITY, TOKENS
from specviz.theory.claims import RunName

_GROUNDED = ("summarise", "translate")
_FREE = "open chat"


def recorded_sentence(run: RunName, points: Sequence[TaskPoint]) -> str | None:
    """Return what the recorded runs show about a claim; None if no runs concern the claim."""
    if run == "kinds":
        return _tasks_sentence([each for each in points if each.task and not each.temperature])
    if run == "temperature":
        return _temperature_sentence([each for each in points if not each.task])
    return None


def _tasks_sentence(greedy: Sequence[TaskPoint]) -> str:
    by_task = {each.task: each for each in greedy}
    free = by_task[_FREE]
    accepted = ", ".join(f"{task} {_acceptance(by_task[task])}" for task in (*_GROUNDED, _FREE))
    if all(_is_above(by_task[task], free) for task in _GROUNDED):
        verdict = (
            f"Candidates in “{_GROUNDED[0]}” and “{_GROUNDED[1]}” are accepted more often than in "
            f"“{_FREE}”"
        )
    elif any(_is_above(free, by_task[task]) for task in _GROUNDED):
        verdict = f"Candidates in “{_FREE}” are accepted more often"
    else:
        verdict = "The intervals overlap"
    return (
        f"α at temperature 0, with its 95 % interval over {free.acceptance.count} prompts: "
        f"{accepted}. {verdict}. The claim is about speed, which was not compared here. The tokens "
        "per round are in the table."
    )


def task_table(run: RunName, points: Sequence[TaskPoint]) -> str:
    """Return a Markdown table with a row per task.

    For the claim on tasks, the columns are α and τ at temperature 0. For the claim on temperature,
    the columns are α at the lower and at the higher temperature.
    """
    cold, hot = sorted({each.temperature for each in points})
    by_task: dict[str, dict[float, TaskPoint]] = {}
    for each in points:
        by_task.setdefault(each.task or "all", {})[each.temperature] = each
    if run == "kinds":
        titles = (f"α at T {cold:g}", "tokens per round")
        found = [(_acceptance(row[cold]), _tau(row[cold])) for row in by_task.values()]
    else:
        titles = (f"α at T {cold:g}", f"α at T {hot:g}")
        found = [(_acceptance(row[cold]), _acceptance(row[hot])) for row in by_task.values()]
    rows = [(task, *cells) for task, cells in zip(by_task, found, strict=True)]
    lines = (("task", *titles), ("---",) * 3, *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _tau(point: TaskPoint) -> str:
    return TOKENS.spread(point.tau.median, point.tau.low, point.tau.high)


def _temperature_sentence(points: Sequence[TaskPoint]) -> str:
    cold, hot = sorted(points, key=lambda each: each.temperature)
    found = ", ".join(f"{_acceptance(each)} at T {each.temperature:g}" for each in (cold, hot))
    if _is_above(cold, hot):
        verdict = "α falls as the temperature rises, as claimed"
    else:
        verdict = "α rises" if _is_above(hot, cold) else "The intervals overlap"
    return f"α, averaged over {cold.acceptance.count} prompts: {found}. {verdict}."


def _acceptance(point: TaskPoint) -> str:
    found = point.acceptance
    return PROBABILITY.spread(found.value, found.low, found.high)


def _is_above(one: TaskPoint, other: TaskPoint) -> bool:
    low, high = one.acceptance.low, other.acceptance.high
    return low is not None and high is not None and low > high

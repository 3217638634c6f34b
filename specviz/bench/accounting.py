"""Compare observed with accounted and forecast speedups; every run has its own process.

The accounted speedup follows from a run's tokens per round and earlier step costs; the forecast is
made before the run, from acceptance on other texts. Every run is a ``run`` command on a preset
prompt. Times vary more between processes than within one, so runs of a single process would make
the step costs look more accurate than they are. The first run of every setting only supplies step
costs for the later runs; it is not part of the results.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from specviz.errors import PairError
from specviz.record.bodies import NO_BODY
from specviz.record.prompts import Preset, read_presets
from specviz.values import Value

SEEDS = 7
GAMMAS = (2, 4, 8)
_TEMPERATURE = 0.7
_TOKENS = 96
_SECONDS = 5.0  # limit for timing the target alone along a run
_STEPS = ("auto", "library")
_NORMAL = 1.96

Say = Callable[[str], None]


class AccountedRun(Value):
    """The observed, accounted and forecast speedups of a run; a value is None if unknown."""

    body: str
    step: str
    gamma: int
    kind: str
    prompt: str
    seed: int
    observed: float | None
    observed_low: float | None
    observed_high: float | None
    accounted: float | None
    round_cost_error: float | None  # half-width of the 95 % interval of its logarithm
    forecast: float | None
    forecast_low: float | None
    forecast_high: float | None

    @property
    def ratio(self) -> float | None:
        return self.observed / self.accounted if self.observed and self.accounted else None

    @property
    def covered(self) -> bool | None:
        """Whether the forecast's interval contains the observed speedup; None if unknown."""
        if self.observed is None or self.forecast_low is None or self.forecast_high is None:
            return None
        return self.forecast_low <= self.observed <= self.forecast_high

    @property
    def agrees(self) -> bool | None:
        """Whether observed and accounted speedup agree within their errors; None if unknown."""
        if not (self.ratio and self.observed and self.observed_low and self.round_cost_error):
            return None
        own = math.log(self.observed / self.observed_low)
        return abs(math.log(self.ratio)) <= math.hypot(own, self.round_cost_error)


def measure_accounting(
    options: Sequence[str], body: str, seeds: int, say: Say
) -> tuple[dict[str, Any], list[AccountedRun]]:
    """Run every setting with every seed; return the results as JSON values, and the runs.

    Args:
        options: Options of ``run`` that name the pair, without --target-body and --step.
        body: A simulated size of the target, measured in addition to its real size.
    """
    runs = list(_make_all(options, body, seeds, say))
    result = {
        "settings": {
            "gammas": GAMMAS, "temperature": _TEMPERATURE, "max_new_tokens": _TOKENS,
            "bodies": list(dict.fromkeys((NO_BODY, body))), "seeds": seeds,
        },
        "rows": summary_rows(runs),
        "figures": {"forecast": coverage(runs)},
        "runs": [asdict(each) for each in runs],
    }  # fmt: skip
    return result, runs


def _make_all(options: Sequence[str], body: str, seeds: int, say: Say) -> Iterator[AccountedRun]:
    settings = list(product(_STEPS, dict.fromkeys((NO_BODY, body)), GAMMAS))
    by_kind: dict[str, list[Preset]] = defaultdict(list)
    for preset in read_presets():
        by_kind[preset.kind].append(preset)
    first = next(iter(by_kind.values()))
    planned = [(setting, first[-1], 0, False) for setting in settings]
    for seed in range(seeds):
        for setting in settings:
            if setting[0] == _STEPS[0]:
                planned += [
                    (setting, each[seed % len(each)], seed, True) for each in by_kind.values()
                ]
            elif seed == 0:
                planned.append((setting, first[0], 0, True))
    for place, (setting, preset, seed, counted) in enumerate(planned, start=1):
        made = _make(options, *setting, preset, seed)
        say(f"{place} of {len(planned)}: {_described(made)}")
        if counted:
            yield made


def _make(
    options: Sequence[str], step: str, body: str, gamma: int, preset: Preset, seed: int
) -> AccountedRun:
    words = [
        "run", preset.text, *options,
        "--target-body", body, "--step", step, "--gamma", str(gamma),
        "--temperature", str(_TEMPERATURE), "--max-new-tokens", str(_TOKENS),
        "--budget", str(_SECONDS),
        "--seed", str(seed), "--no-keep", "--json",
    ]  # fmt: skip
    done = _run_specviz(words)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing was printed"]
        raise PairError(
            f"A run of the pair failed: {said[-1]}.",
            remedy="To see the error, run the pair with `python -m specviz run`.",
        )
    record = json.loads(done.stdout)
    figures = record["metrics"]
    own = figures["step_costs_of_this_run"]
    return AccountedRun(
        body=body, step=step, gamma=gamma, kind=preset.kind,
        prompt=preset.text, seed=seed,
        observed=figures["speedup_observed"],
        observed_low=figures["speedup_low"],
        observed_high=figures["speedup_high"],
        accounted=None if own else figures["speedup_accounted"],
        round_cost_error=figures["round_cost_error"],
        forecast=figures["speedup_forecast"],
        forecast_low=figures["forecast_low"],
        forecast_high=figures["forecast_high"],
    )  # fmt: skip


def _run_specviz(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specviz", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _described(run: AccountedRun) -> str:
    def number(value: float | None) -> str:
        return "unknown" if value is None else f"{value:.2f}"

    return (
        f"{run.step} step, body {run.body}, γ {run.gamma}, {run.kind}: "
        f"observed {number(run.observed)}, accounted {number(run.accounted)}"
    )


# Figures


def summary_rows(runs: Iterable[AccountedRun]) -> list[dict[str, Any]]:
    """Return one table row for each simulated size (body) and value of ``--step``.

    A row has the median and the range of a ratio over the runs: the observed speedup divided by the
    accounted speedup.
    """
    groups: dict[tuple[str, str], list[AccountedRun]] = defaultdict(list)
    for run in runs:
        groups[run.step, run.body].append(run)
    rows: list[dict[str, Any]] = []
    for (step, body), members in groups.items():
        ratios = sorted(each.ratio for each in members if each.ratio is not None)
        agree = [each.agrees for each in members if each.agrees is not None]
        rows.append(
            {
                "step": step,
                "body": body,
                "runs": len(ratios),
                "observed_over_accounted": median(ratios) if ratios else None,
                "from": ratios[0] if ratios else None,
                "to": ratios[-1] if ratios else None,
                "within_errors": f"{sum(agree)} of {len(agree)}",
            }
        )
    return rows


def coverage(runs: Iterable[AccountedRun]) -> dict[str, float | int | None]:
    """Return the share of runs in which the forecast's interval contains the observed speedup.

    ``error`` is the half-width of the 95 % interval of this share. The interval treats all runs of
    a prompt as one cluster, because these runs are not independent.
    """
    known = [run for run in runs if run.covered is not None]
    if not known:
        return {"runs": 0, "covered": None, "error": None, "width": None}
    share = sum(bool(run.covered) for run in known) / len(known)
    by_prompt: dict[str, float] = defaultdict(float)
    for run in known:
        by_prompt[run.prompt] += bool(run.covered) - share
    count = len(by_prompt)
    squares = math.fsum(each**2 for each in by_prompt.values())
    error = math.sqrt(squares * count / (count - 1)) / len(known) if count > 1 else None
    widths = [
        run.forecast_high / run.forecast_low
        for run in known
        if run.forecast_high and run.forecast_low
    ]
    return {
        "runs": len(known),
        "covered": share,
        "error": None if error is None else _NORMAL * error,
        "width": median(widths),  # upper end / lower end
    }

"""Check a comparison for regressions against a saved comparison.

Speedups over the target alone are compared, because they transfer between machines better than
rates do. Rates are compared only on request. The ratio is the new speedup divided by the saved
speedup. A lane fails if the whole interval of this ratio is below the limit. A ratio of rates has
no interval, so the ratio itself is compared with the limit. Lanes are matched by label. Matched
lanes must have the same settings, models and prompts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz.comparison.plan import Lane, Plan
from specviz.errors import ConfigError
from specviz.figures.catalogue import CATALOGUE
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store.text_files import read_text
from specviz.values import Value

DEFAULT_SHARE = 0.95
MAX_SAVED_BYTES = 20 * 10**6
_MACHINE = ("device", "device_name", "cpu", "threads", "dtype")
_FIGURES = {"speedup": "speedup_observed", "tokens_per_second": "tokens_per_second"}
_MEASURED_BY = {
    "speedup": "without --no-baseline, or add --against-rate",
    "tokens_per_second": "with runs of several rounds",
}
# Fields of a pair that must be the same; the others describe the machine.
_MODELS = (
    "name",
    "draft",
    "target",
    "dtype",
    "step",
    "target_body",
    "draft_body",
    "shared_vocabulary",
    "target_weights",
    "draft_weights",
)


class RegressionLimit(Value):
    """A saved comparison, and the smallest ratio that passes.

    The ratio is the new speedup divided by the saved speedup, or the new rate divided by the saved
    rate.
    """

    path: Path
    saved: dict[str, dict[str, Any]]  # lanes by label
    share: float
    figure: str  # a key of the saved medians

    @staticmethod
    def of(options: argparse.Namespace, plan: Plan) -> RegressionLimit | None:
        """Return the limit that the options set; None without --against.

        Raises:
            ConfigError: An option or the saved file cannot be used.
        """
        if options.against is None:
            if options.fail_below is not None or options.against_rate:
                raise ConfigError(
                    "--fail-below and --against-rate need a saved comparison.",
                    remedy="Add --against SAVED.json.",
                )
            return None
        share = DEFAULT_SHARE if options.fail_below is None else options.fail_below
        if not (math.isfinite(share) and 0 < share <= 10):
            raise ConfigError(
                f"--fail-below is {share}.", remedy="Give a number above 0 and up to 10."
            )
        figure = "tokens_per_second" if options.against_rate else "speedup"
        if figure == "speedup" and not options.baseline:
            raise ConfigError(
                "--against compares speedups, but with --no-baseline no speedups are measured.",
                remedy="Remove one of these options, or add --against-rate.",
            )
        record, saved = _saved_comparison(options.against)
        _check_lanes(options.against, saved, plan.labels, figure)
        _check_work(options.against, record, saved, plan)
        return RegressionLimit(path=options.against, saved=saved, share=share, figure=figure)


class RegressionCheck(Value):
    """Result of a regression check: ``record`` for JSON, ``lines`` for the terminal."""

    failed: bool
    record: dict[str, Any]
    lines: tuple[str, ...]


def check_regression(record: dict[str, Any], limit: RegressionLimit) -> RegressionCheck:
    """Check a comparison, given as JSON values, against the saved comparison in ``limit``."""
    rows = [_row(lane, limit) for lane in record["lanes"]]
    elsewhere = any(
        _machine(lane) != _machine(limit.saved[lane["label"]]) for lane in record["lanes"]
    )
    lines = [_line(row, limit) for row in rows]
    if elsewhere:
        lines.append("The saved comparison was made on another machine or with other settings.")
    return RegressionCheck(
        failed=any(row["below"] for row in rows),
        record={
            "file": str(limit.path),
            "figure": limit.figure,
            "fail_below": limit.share,
            "same_machine": not elsewhere,
            "lanes": rows,
        },
        lines=tuple(lines),
    )


def _row(lane: dict[str, Any], limit: RegressionLimit) -> dict[str, Any]:
    now = lane["medians"][limit.figure]
    before = limit.saved[lane["label"]]["medians"][limit.figure]
    share = now / before if now is not None else 0.0
    error = _joint_error(lane, limit) if now is not None else None
    low, high = (None, None) if error is None else (share / error, share * error)
    return {
        "label": lane["label"],
        "now": now,
        "saved": before,
        "ratio": share,
        "low": low,
        "high": high,
        "below": (share if high is None else high) < limit.share,
    }


def _joint_error(lane: dict[str, Any], limit: RegressionLimit) -> float | None:
    """Return a factor f for the interval of a ratio: [ratio / f, ratio · f].

    The ratio is the new speedup divided by the saved speedup. Return None if either speedup has no
    interval, or if rates are compared.
    """
    both = (lane, limit.saved[lane["label"]])
    errors = [_error(each) if limit.figure == "speedup" else None for each in both]
    known = [each for each in errors if each is not None]
    return math.exp(math.hypot(*known)) if len(known) == len(both) else None


def _error(lane: dict[str, Any]) -> float | None:
    """Return the half-width of the interval of log(speedup); None without an interval."""
    intervals = lane.get("intervals")
    found = intervals.get("speedup") if isinstance(intervals, dict) else None
    if not isinstance(found, dict):
        return None
    low, high = found.get("low"), found.get("high")
    if low is None or high is None or not (_is_figure(low) and _is_figure(high) and low <= high):
        return None
    return math.log(high / low) / 2


def _line(row: dict[str, Any], limit: RegressionLimit) -> str:
    figure = CATALOGUE[_FIGURES[limit.figure]]
    now, saved = (figure.quantity.shown(row[each]) for each in ("now", "saved"))
    # Three digits, because limits may have three.
    line = f"{row['label']}: {figure.head} {now}, saved {saved}, ratio {row['ratio']:.3f}"
    if row["low"] is not None:
        line += f" ({row['low']:.3f} to {row['high']:.3f})"
    if row["below"]:
        return f"{line}: below {limit.share:g}"
    passed = row["low"] is None or row["low"] >= limit.share
    return f"{line}: {'at least' if passed else 'too close to call at'} {limit.share:g}"


def _machine(lane: dict[str, Any]) -> list[Any]:
    environment = lane.get("environment")
    known = environment if isinstance(environment, dict) else {}
    return [known.get(name) for name in _MACHINE]


# The saved file


def _saved_comparison(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the saved comparison, and its lanes by label."""
    text = read_text(path, "--against", MAX_SAVED_BYTES)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise _no_comparison(path) from None
    lanes = record.get("lanes") if isinstance(record, dict) else None
    if not isinstance(lanes, list) or not all(_is_lane(lane) for lane in lanes):
        raise _no_comparison(path)
    return record, {lane["label"]: lane for lane in lanes}


def _is_lane(lane: object) -> bool:
    if not isinstance(lane, dict):
        return False
    return isinstance(lane.get("label"), str) and isinstance(lane.get("medians"), dict)


def _check_lanes(
    path: Path, saved: dict[str, dict[str, Any]], labels: Sequence[str], figure: str
) -> None:
    for label in labels:
        if label not in saved:
            raise ConfigError(
                f"--against: {path} has no lane {label!r}.",
                remedy="Compare the same lanes, or give them the saved names.",
            )
        if not _is_figure(saved[label]["medians"].get(figure)):
            raise ConfigError(
                f"--against: lane {label!r} of {path} has no {figure}.",
                remedy=f"Save the comparison again {_MEASURED_BY[figure]}.",
            )


def _is_figure(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value) and value > 0
    except OverflowError:  # an integer too large for a float
        return False


def _check_work(
    path: Path, record: dict[str, Any], saved: dict[str, dict[str, Any]], plan: Plan
) -> None:
    """Raise ConfigError if settings, models or prompts differ from the saved comparison."""
    for label, lane in zip(plan.labels, plan.lanes, strict=True):
        for name in _differing(saved[label], lane):
            raise ConfigError(
                f"--against: lane {label!r} of {path} has a different {name}.",
                remedy="Compare with the saved settings.",
            )
    prompts = record.get("prompts")
    rows = prompts if isinstance(prompts, list) else []
    texts = [each.get("prompt") for each in rows if isinstance(each, dict)]
    if texts != [item.prompt for item in plan.items]:
        raise ConfigError(
            f"--against: {path} has different prompts.",
            remedy="Compare on the saved prompts.",
        )


def _differing(saved: dict[str, Any], lane: Lane) -> list[str]:
    """Return the names of the settings in which ``lane`` differs from the saved lane.

    A setting that is missing in the saved lane counts as its default.
    """
    models, settings = saved.get("pair"), saved.get("settings")
    if not isinstance(models, dict) or not isinstance(settings, dict):
        return ["kind of record"]
    current, usual = _as_saved(lane.config), _as_saved(RunConfig())
    pair = dataclasses.asdict(lane.spec)
    return [
        *(name for name in _MODELS if models.get(name, _usual_model(name)) != pair[name]),
        *(name for name in current if settings.get(name, usual[name]) != current[name]),
    ]


def _as_saved(config: RunConfig) -> dict[str, Any]:
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _usual_model(name: str) -> object:
    return getattr(PairSpec(), name)


def _no_comparison(path: Path) -> ConfigError:
    return ConfigError(
        f"--against: {path} is not a saved comparison.",
        remedy="Give a file that `compare --out` wrote.",
    )

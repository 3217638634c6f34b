"""Loss and evaluation curves, thinned out to stay small even after millions of training steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specviz.training.drafts.progress import Trained
from specviz.values import Value

_MOST = 400  # points of a curve
LOG = "log.jsonl"
CURVE = "curve.jsonl"  # beside a draft's weights


class LossPoint(Value):
    """The mean loss of the steps after the previous point, up to ``step``."""

    step: int
    loss: float
    steps: int  # number of steps averaged


@dataclass(slots=True, eq=False)
class Curves:
    """Losses, averaged over neighbouring steps, and the evaluations on held-out texts."""

    losses: list[LossPoint] = field(default_factory=list[LossPoint])
    checks: list[Trained] = field(default_factory=list[Trained])
    best: Trained | None = None
    _width: int = 1  # steps in one point of the losses

    def add(self, row: Trained) -> None:
        """Add a step.

        If a resumed training repeats the step, first drop the points of this step and later steps.
        """
        if self.losses and row.step <= self.losses[-1].step:
            self._drop_from(row.step)
        self._add_loss(row)
        if row.accepted:
            self.checks.append(row)
            if self.best is None or row.expected > self.best.expected:
                self.best = row
            if len(self.checks) > _MOST:
                del self.checks[1:-1:2]

    @property
    def step(self) -> int:
        return self.losses[-1].step if self.losses else 0

    def _add_loss(self, row: Trained) -> None:
        last = self.losses[-1] if self.losses else None
        if last is not None and last.steps < self._width:
            self.losses[-1] = _joined(last, LossPoint(step=row.step, loss=row.loss, steps=1))
        else:
            self.losses.append(LossPoint(step=row.step, loss=row.loss, steps=1))
        if len(self.losses) > _MOST:
            pairs = zip(self.losses[::2], self.losses[1::2], strict=False)
            odd = self.losses[-1:] if len(self.losses) % 2 else []
            self.losses = [_joined(*each) for each in pairs] + odd
            self._width *= 2

    def _drop_from(self, step: int) -> None:
        self.losses = [each for each in self.losses if each.step < step]
        self.checks = [each for each in self.checks if each.step < step]
        self.best = max(self.checks, key=lambda each: each.expected, default=None)


def _joined(first: LossPoint, second: LossPoint) -> LossPoint:
    steps = first.steps + second.steps
    mean = (first.loss * first.steps + second.loss * second.steps) / steps
    return LossPoint(step=second.step, loss=mean, steps=steps)


def logged_curves(folder: Path, planned: int) -> Curves:
    """Return the curves of the steps in a training's log; empty if there is no log."""
    curves = Curves()
    for row in _rows(folder / LOG):
        try:
            curves.add(_step(row, planned, loss=float(row["loss"]), seconds=float(row["seconds"])))
        except (KeyError, TypeError, ValueError):  # a line that was cut off
            continue
    return curves


def evaluations(draft: Path) -> tuple[Trained, ...]:
    """Return the evaluations on held-out texts; their file is in the draft's folder."""
    rows = list(_rows(draft / CURVE))
    return tuple(_step(row, int(rows[-1]["step"]), loss=0.0, seconds=0.0) for row in rows)


def _step(row: dict[str, Any], planned: int, *, loss: float, seconds: float) -> Trained:
    return Trained(
        step=int(row["step"]),
        planned=planned,
        loss=loss,
        seconds=seconds,
        accepted=tuple(map(float, row.get("accepted", ()))),
        agreeing=tuple(map(float, row.get("agreeing", ()))),
        expected=float(row.get("expected", 0.0)),
    )


def curve_text(curves: Curves) -> str:
    """Return the evaluations on held-out texts as JSON lines."""
    names = ("step", "accepted", "agreeing", "expected")
    rows = ({name: getattr(each, name) for name in names} for each in curves.checks)
    return "".join(f"{json.dumps(each)}\n" for each in rows)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    yield row
    except OSError:
        return

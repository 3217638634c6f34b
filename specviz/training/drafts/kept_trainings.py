"""The trainings on this machine: their folders and plans, read without any model library."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from specviz.errors import ConfigError, SpecvizError
from specviz.folders import data_folder
from specviz.training.drafts.curves import LOG
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.values import Value

PLAN = "plan.json"
_TAIL = 4096  # bytes at the end of a log, which contain its last line
_LONGEST_NAME = 100


class KeptTraining(Value):
    """A training that was started; ``step`` is the last step in its log."""

    folder: Path
    plan: TrainingPlan
    target: str  # its name
    step: int
    has_draft: bool


def trainings_folder() -> Path:
    """Return the folder of all trainings.

    Raises:
        ConfigError: There is no home folder.
    """
    try:
        return data_folder() / "trainings"
    except RuntimeError:
        raise ConfigError(
            "There is no home folder.", remedy="Set SPECVIZ_HOME to a folder."
        ) from None


def folder_named(name: str) -> Path:
    """Return the folder of a training.

    Raises:
        ConfigError: The name is not the name of a folder.
    """
    plain = name.strip()
    usable = plain.isprintable() and 0 < len(plain) <= _LONGEST_NAME
    if not usable or plain in (".", "..") or any(sign in plain for sign in "/\\:"):
        raise ConfigError(
            f"{plain[:40]!r} is not a name for a training.",
            remedy=f"Give at most {_LONGEST_NAME} characters without slashes and colons.",
        )
    return trainings_folder() / plain


def kept_trainings() -> tuple[KeptTraining, ...]:
    """Return the trainings in ``trainings_folder``, the most recent first."""
    try:
        folders = sorted(trainings_folder().iterdir(), key=_changed, reverse=True)
    except (OSError, SpecvizError):
        return ()
    return tuple(found for each in folders if (found := kept_training(each)) is not None)


def kept_training(folder: Path) -> KeptTraining | None:
    """Return the training in a folder; None if it has no plan that this version can read."""
    try:
        stated = plan_stated(folder / PLAN)
        texts = _values(stated["texts"], TextPlan)
        texts["prompts"] = tuple(texts.get("prompts", ()))
        values = _values(stated, TrainingPlan)
        values["texts"] = TextPlan(**texts)
        plan = TrainingPlan(**values)
        return KeptTraining(
            folder=folder,
            plan=plan,
            target=str(stated["name"]),
            step=_last_step(folder / LOG),
            has_draft=(folder / "draft" / "config.json").is_file(),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, SpecvizError):
        return None


def plan_stated(path: Path) -> dict[str, Any]:
    """Return the values in a plan file; ``task_share`` is 0 if the file does not state it."""
    stated: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(texts := stated.get("texts"), dict):
        texts.setdefault("task_share", 0.0)
    return stated


def _values(stated: dict[str, Any], kind: type) -> dict[str, Any]:
    return {each.name: stated[each.name] for each in fields(kind) if each.name in stated}


def _last_step(log: Path) -> int:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, TypeError, KeyError):  # a line that was cut off
            continue
    return 0


def _changed(folder: Path) -> float:
    return folder.stat().st_mtime

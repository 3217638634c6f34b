"""Start or continue a training, and find the training that a browser tab shows."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import streamlit as st

from specviz.errors import ConfigError
from specviz.measure.background_job import Job
from specviz.record.pairs import OWN_MTP, PairSpec
from specviz.training.drafts.plan import TrainingPlan
from specviz.training.drafts.training_job import TRAINING, DraftWork, OtherWork, TrainingJob
from specviz.ui.session.background_jobs import (
    linked_job,
    put_shown,
    run_maker,
    shown_job,
    the_job_queue,
)
from specviz.ui.session.worker import the_worker
from specviz.worker.parent.client import Worker
from specviz.worker.parent.job_queue import JobQueue

_GIVES_WAY = "train_gives_way"


def target_of(spec: PairSpec) -> PairSpec:
    """Return the pair to train for, without simulated sizes and usually without its draft.

    The draft is kept only for embedded pairs and for targets with their own MTP head.

    Raises:
        ConfigError: The target is on a server.
    """
    if spec.served:
        raise ConfigError("The target is on a server.", remedy="Choose a target on this machine.")
    alone = spec.without_bodies
    if spec.embedded or spec.head == OWN_MTP:
        return alone
    return PairSpec(
        target=spec.target, device=spec.device, dtype=spec.dtype, step=spec.step,
        threads=spec.threads, target_weights=spec.target_weights,
    )  # fmt: skip


def target_name(spec: PairSpec) -> str:
    """Return the last part of the target's name, changed so that a folder's name may contain it."""
    if spec.embedded:
        return spec.embedded_target
    name = re.split(r"[/\\]", (spec.target or "").rstrip("/\\"))[-1]
    return re.sub(r"[^\w.-]", "-", name.removesuffix(".gguf"))[:40] or "target"


def start(spec: PairSpec, plan: TrainingPlan, folder: Path, *, gives_way: bool) -> None:
    """Start the training in a folder, or continue the training that the folder contains.

    Args:
        gives_way: Whether the training pauses while other runs wait.

    Raises:
        ConfigError: The training runs already, or the target is on a server.
    """
    queue, worker = the_job_queue(), the_worker()
    trainings = (each for each in queue.going if isinstance(each, TrainingJob))
    if any(Path(each.work.folder) == folder for each in trainings):
        raise ConfigError(
            "This training runs already.", remedy="Wait until the training ends, or pause it."
        )
    work = DraftWork(plan=plan, spec=target_of(spec), folder=str(folder))
    others = OtherWork(
        jobs=partial(_other_jobs, queue),
        waiting=partial(_waits, worker),
        busy=partial(_busy, worker),
    )
    job = TrainingJob(work, run_maker(), others=others, gives_way=gives_way)
    queue.start(job)
    put_shown(job)


def _other_jobs(queue: JobQueue, job: Job) -> bool:
    return any(each is not job for each in queue.going)


def _waits(worker: Worker) -> bool:
    return worker.waits


def _busy(worker: Worker) -> bool:
    return worker.busy


def take_linked() -> None:
    """Show the training that the link names, and remove its name from the link."""
    if isinstance(job := linked_job(), TrainingJob):
        put_shown(job)


def shown_training() -> TrainingJob | None:
    return shown_job(TRAINING, TrainingJob)


def choose_gives_way(job: TrainingJob | None) -> bool:
    """Draw the toggle *Pause for other runs*, and apply it to a running training.

    Return the value of the toggle.
    """
    chosen = st.toggle(
        "Pause for other runs", True, key=_GIVES_WAY,
        help="On: the training pauses while other runs or comparisons are made, and continues a "
        "few seconds after their end. Off: other runs wait in the queue until the training ends or "
        "is paused.",
    )  # fmt: skip
    if job is not None and job.going:
        job.gives_way = chosen
    return chosen

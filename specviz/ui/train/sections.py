"""The sections of Train: predicted cost, progress, curves, and the expected speedup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from specviz.errors import ConfigError
from specviz.record.body_costs import BodyRoom
from specviz.record.numbers import COST, PROBABILITY, RATIO, SIZE, TOKENS, WHOLE_PERCENT
from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, EMBEDDED_HEADS, pairs_folder
from specviz.training.drafts.curves import evaluations
from specviz.training.drafts.estimate import estimate, long_time, measured_arithmetic
from specviz.training.drafts.plan import KINDS, TrainingPlan
from specviz.training.drafts.progress import Trained
from specviz.training.drafts.training_job import TrainingJob
from specviz.training.drafts.worth import MORE, Worth
from specviz.ui.session.background_jobs import stop
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.session.worker import this_tab
from specviz.ui.train.charts import (
    WorthPoint,
    acceptance_chart,
    gains_chart,
    loss_chart,
    worth_chart,
)
from specviz.ui.train.controls import KIND_NAMES
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.ui.widgets.recorded_example import show_example_caption
from specviz.worker.parent.client import Room

_TICK = 2.0  # seconds: charts are rebuilt each time
_UNKNOWN = ConfigError("The target's shape is not known.", remedy="Load the target again.")


def show_costs(plan: TrainingPlan, room: Room | None) -> None:
    """Draw what each kind of draft would cost with these settings.

    Args:
        plan: The settings.
        room: The request that reads the target's layer sizes from small files; None before the
            target is loaded.
    """
    if room is None:
        st.caption("To see the cost of a training, load the target: press *Load* under *The pair*.")
        return

    def is_done() -> bool:
        return room.done

    def draw(done: bool) -> None:
        if not done:
            st.caption("Reading the target's shape.")
        elif room.result is None:
            show_error(room.error or _UNKNOWN)
        else:
            _show_table(plan, room.result)

    redraw_while_busy(is_done(), is_done, lambda done: not done, draw, seconds=0.5)


def _show_table(plan: TrainingPlan, room: BodyRoom) -> None:
    found = [estimate(replace(plan, kind=kind), room, measured_arithmetic()) for kind in KINDS]
    known = [each for each in found if each is not None]
    if len(known) < len(KINDS):
        st.caption("Training supports only targets with the Llama architecture, such as Qwen3.")
        return
    names = [f"**{KIND_NAMES[k]}**" if k == plan.kind else KIND_NAMES[k] for k in KINDS]
    frame = pd.DataFrame.from_dict(
        {
            "draft": names,
            "c here": [COST.shown(each.c) for each in known],
            "its size": [SIZE.shown(each.draft_bytes) for each in known],
            "disk, at most": [SIZE.shown(each.disk_bytes) for each in known],
            "time, about": [long_time(each.seconds) for each in known],
        }
    )
    with st.container(key="train_costs"):
        st.table(frame, border="horizontal", hide_index=True)
    st.caption(
        ":orange-badge[predicted] The values are computed from the target's shape, and from this "
        "machine's memory bandwidth and arithmetic speed. c is the bytes that a draft step reads, "
        "divided by the bytes that a target step reads. Drafts of small targets are slower than c "
        "predicts, because each operation has a fixed cost."
    )


def show_example() -> None:
    """Draw how the acceptance of a head that specviz ships changed during the head's training."""
    checks = evaluations(pairs_folder().joinpath(*EMBEDDED_HEADS[CHAT_HEAD]))
    first, last = checks[0], checks[-1]
    show_example_caption(
        "Start",
        f"specviz comes with an EAGLE-3 head for {CHAT_PAIR}. From step {first.step:,} to step "
        f"{last.step:,} of its training, the acceptance of the first candidate rose from "
        f"{PROBABILITY.shown(first.accepted[0])} to {PROBABILITY.shown(last.accepted[0])}. For a "
        "training of your own, this page also shows the loss and the expected speedup.",
    )
    _show_acceptance(checks, None)


def _show_acceptance(checks: Sequence[Trained], break_even: float | None) -> None:
    beyond = "" if break_even is None else " Above break-even, there is a speedup."
    show_chart(
        acceptance_chart(checks, break_even),
        f"The chart shows the acceptance on held-out texts, at temperature 1.{beyond}",
        "measured", key="train_acceptance", alt="Acceptance by position, at each evaluation",
    )  # fmt: skip


def follow_training(job: TrainingJob) -> None:
    """Draw the progress and the curves of a training, and redraw them while the training runs."""

    def look() -> bool:
        this_tab()
        return job.going

    redraw_while_busy(look(), look, bool, partial(_show, job), seconds=_TICK)


def _show(job: TrainingJob, going: bool) -> None:
    if going:
        _show_progress(job)
    elif job.error is not None:
        show_error(job.error)
    elif job.result is None:
        st.info(
            f"Paused at step {job.curves.step:,}. Everything is saved. To go on with the "
            "training, press *Continue*, now or after a restart of the dashboard."
        )
    _show_figures(job)
    _show_curves(job)


def _show_progress(job: TrainingJob) -> None:
    done, planned = job.progress
    left = job.seconds_left
    ahead = "" if left is None else f", about {long_time(left)} left"
    count = f"{done:,} of {planned:,}: " if job.stage else ""
    with st.container(horizontal=True, vertical_alignment="center", key="train_progress"):
        st.progress(
            min(1.0, done / max(1, planned)), text=f":small[{count}{as_text(job.doing)}{ahead}]"
        )
        st.button("Pause", key="train_pause", on_click=stop, args=(job,))
        st.button(
            "Stop and keep the best draft", key="train_finish", on_click=job.finish,
            disabled=not job.can_finish,
        )  # fmt: skip
    if job.pauses:
        st.caption(f"Paused {job.pauses:,}× for other runs.")


def _show_figures(job: TrainingJob) -> None:
    found = job.figures
    if found is None:
        return
    repeated = f", {found.repeated:,} repeated texts left out" if found.repeated else ""
    fresh = " The hidden states do not fit on the disk, so every training step computes them again."
    st.caption(
        f":green-badge[measured] {found.texts:,} texts with {found.tokens:,} tokens that the "
        f"target wrote{repeated}. {WHOLE_PERCENT.shown(found.ended)} of the texts end "
        f"with an end-of-text token. {WHOLE_PERCENT.shown(found.repetition)} of the 4-grams are "
        f"repetitions. The draft can propose {WHOLE_PERCENT.shown(found.covered)} of the tokens."
        + ("" if found.stored else fresh)
    )


def _show_curves(job: TrainingJob) -> None:
    curves = job.curves
    if not curves.losses:
        return
    left, right = st.columns(2, gap="medium")
    with left:
        show_chart(
            loss_chart(curves.losses),
            "The loss at each step. In a long training, each point is a mean over several steps.",
            "measured", key="train_loss", alt="Loss at each step of the training",
        )  # fmt: skip
    if not curves.checks:
        right.caption("The acceptance on held-out texts is computed every 100 steps.")
        return
    found = job.best_worth
    even = None if found is None else found.best.break_even
    with right:
        _show_acceptance(curves.checks, even)
    if found is not None:
        _show_worth(job, found)


def _show_worth(job: TrainingJob, found: Worth) -> None:
    best, costs = found.best, job.costs
    assert costs is not None
    with st.container(border=True, key="train_worth", gap="small"):
        st.markdown(
            f"##### Expected speedup {RATIO.shown(best.speedup)} with γ {best.gamma}: "
            f"{TOKENS.shown(best.tokens)} tokens per round."
        )
        if best.speedup <= 1.0:
            st.markdown(
                "So far, the target alone is faster. "
                + ("" if best.break_even is None else "For a speedup, the acceptance must exceed ")
                + ("" if best.break_even is None else f"{PROBABILITY.shown(best.break_even)}.")
            )
        if (more := job.gain_of_more) is not None:
            st.markdown(
                f"Training on {MORE:g} times as many tokens would add about {RATIO.shown(more)} to "
                "the speedup. :orange-badge[extrapolated] This assumes that the acceptance grows "
                "linearly with the logarithm of the number of tokens."
            )
        verified = "measured here" if costs.measured else "assumed to be one target step"
        st.caption(
            f"The speedup is τ / (γ c + v): τ follows from the acceptance above, c is "
            f"{COST.shown(costs.c)} (predicted from the bytes of a step), and v is "
            f"{COST.shown(costs.verify[best.gamma - 1])} ({verified})."
        )
    left, right = st.columns(2, gap="medium")
    with left:
        show_chart(
            worth_chart(worth_points(job)),
            "The expected speedup at each evaluation, with the best γ for that evaluation. Above "
            "the line, speculation is faster than the target alone.",
            "predicted", key="train_worth_chart", alt="Expected speedup at each evaluation",
        )  # fmt: skip
    with right:
        show_chart(
            gains_chart(gains_of(job)),
            "The expected speedup with the best draft so far. An open circle marks a γ above the "
            "number of trained positions. All untrained positions are assumed to have the "
            "acceptance of the last trained position.",
            "predicted", key="train_gains", alt="Expected speedup at each γ",
        )  # fmt: skip


def worth_points(job: TrainingJob) -> list[WorthPoint]:
    """Return the best expected speedup after each evaluation."""
    found = [(each.step, job.worth_of(each)) for each in job.curves.checks]
    return [
        WorthPoint(step=step, gamma=own.best.gamma, speedup=own.best.speedup)
        for step, own in found
        if own is not None
    ]


def gains_of(job: TrainingJob) -> list[tuple[str, Worth]]:
    """Return the expected speedups with the best draft, at temperatures 1 and 0."""
    best: Trained | None = job.curves.best
    row = job.result or best
    if row is None:
        return []
    found = (
        ("temperature 1", job.worth_of(row)),
        ("temperature 0", job.worth_of(row, greedy=True)),
    )
    return [(name, own) for name, own in found if own is not None]

"""The trained draft: a box with its results, buttons to use it, and a comparison of drafters."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import MAX_LANES, Lane, Plan
from specviz.errors import ConfigError, SpecvizError
from specviz.local_models.naming import with_head
from specviz.record.drafters import first_method
from specviz.record.numbers import PROBABILITY
from specviz.record.pairs import PairSpec, default_gamma
from specviz.record.prompts import SuiteItem, chat_suite, preset_suite
from specviz.record.run_config import RunConfig
from specviz.training.drafts.kept_trainings import KeptTraining
from specviz.training.drafts.plan import DraftKind
from specviz.training.drafts.progress import TrainedDraft
from specviz.training.drafts.training_job import TrainingJob
from specviz.ui.compare.lanes import LANES_HANDOVER, lane_text
from specviz.ui.compare.results import findings_of, show_results
from specviz.ui.session.background_jobs import put_shown, shown_job, start_comparison
from specviz.ui.session.body_rooms import known_room
from specviz.ui.session.presses import press_button, take_press
from specviz.ui.train.controls import KIND_NAMES
from specviz.ui.train.current import target_of
from specviz.ui.tune.current import follow
from specviz.ui.widgets.method_boxes import early_exits
from specviz.ui.widgets.pair_boxes import put_pair
from specviz.ui.widgets.plain_text import as_text, show_error

BEFORE_AND_AFTER = "train-compare"
_LOOKUPS = ("prompt-lookup", "suffix")
_OPENED = {"watch": "Open in Watch", "compare": "Compare with the others", "tune": "Tune"}
_GO = "train go to page"
_ENGINES: dict[DraftKind, dict[str, str]] = {  # by the value of --export
    "eagle3": {"speculators": "vLLM", "eagle": "SGLang", "gguf": "llama.cpp"},
    "medusa": {},
    "small": {"gguf": "llama.cpp"},
}
_LENGTH = 128  # tokens of a compared run


def show_result(job: TrainingJob, result: TrainedDraft, spec: PairSpec, *, chat: bool) -> None:
    """Draw the result of a training.

    Args:
        job: The training.
        result: The draft that the training made.
        spec: The page's pair. It may have an older draft for the target.
        chat: Whether the target has a chat template.
    """
    _show_card(job, result)
    made = pair_with(job.spec, Path(result.folder))
    gamma = _best_gamma(job)
    _offer_links(made, spec, gamma)
    _show_before_and_after(job, made, spec, gamma, chat=chat)


def show_kept_draft(spec: PairSpec, kept: KeptTraining) -> None:
    """Draw buttons that open the draft of an earlier training."""
    try:
        made = pair_with(target_of(spec), kept.folder / "draft")
    except SpecvizError as error:
        show_error(error)
        return
    st.caption(
        f"{as_text(kept.folder.name)} contains a draft for {as_text(kept.target)}. Press "
        "*Continue* to see the curves of its training, or to train it for more steps."
    )
    _offer_links(made, spec, RunConfig().gamma)


def pair_with(target: PairSpec, draft: Path) -> PairSpec:
    """Return the pair of ``target`` and the draft in the folder ``draft``."""
    return with_head(
        PairSpec(
            target=target.target_place, draft=str(draft), device=target.device, dtype=target.dtype,
            step=target.step, threads=target.threads, target_weights=target.target_weights,
        )
    )  # fmt: skip


def _best_gamma(job: TrainingJob) -> int:
    found = job.best_worth
    return RunConfig().gamma if found is None else found.best.gamma


def _show_card(job: TrainingJob, result: TrainedDraft) -> None:
    plan = job.work.plan
    accepted, agreeing = (
        ", ".join(PROBABILITY.shown(value) for value in row)
        for row in (result.accepted, result.agreeing)
    )
    with st.container(border=True, key="train_card", gap="small"):
        st.markdown(f"##### The draft: {KIND_NAMES[plan.kind]}, from step {result.step:,}")
        st.markdown(
            f"Acceptance by position on held-out texts: {accepted} at temperature 1; {agreeing} at "
            "temperature 0."
        )
        st.caption(
            f"{plan.texts.count:,} texts of at most {plan.texts.longest:,} tokens, "
            f"{plan.steps:,} steps, seed {plan.seed}. Folder: {as_text(result.folder)}"
        )
        _show_exports(Path(result.folder), plan.kind)


def _show_exports(draft: Path, kind: DraftKind) -> None:
    """Draw the commands that export the draft for serving engines. The commands need torch."""
    line = f"python -m specviz train --out {shlex.quote(str(draft.parent))} --export "
    if engines := _ENGINES[kind]:
        st.caption("To serve the draft with another engine:")
        code = "\n".join(f"{line}{how}  # {engine}" for how, engine in engines.items())
        st.code(code, language="bash", wrap_lines=True)


def _offer_links(made: PairSpec, spec: PairSpec, gamma: int) -> None:
    """Draw buttons that use the pair ``made`` on other pages.

    After a click, ``switch_if_asked`` opens the chosen page.
    """
    with st.container(horizontal=True, key="train_links"):
        for page, label in _OPENED.items():
            st.button(
                label, key=f"train_to_{page}", on_click=_hand_over, args=(page, made, spec, gamma)
            )


def _hand_over(page: str, made: PairSpec, spec: PairSpec, gamma: int) -> None:
    st.session_state[_GO] = page
    if page == "compare":
        lanes = lanes_of(made, spec, gamma, chat=False, layers=_layers_of(spec))
        st.session_state[LANES_HANDOVER] = [lane_text(each) for each in lanes]
    else:
        put_pair(made.target or "", made.draft or "")
        st.session_state["gamma"] = gamma


def switch_if_asked() -> None:
    """Open the page whose button was pressed. Call before the page draws its controls."""
    page = st.session_state.pop(_GO, None)
    if page in _OPENED:
        # Without query_params, switch_page refuses parameters that are bound to widgets.
        lanes = {"lane": st.session_state[LANES_HANDOVER]} if page == "compare" else {}
        st.switch_page(f"pages/{page}.py", query_params=lanes)


def lanes_of(
    made: PairSpec, spec: PairSpec, gamma: int, *, chat: bool, layers: int | None = None
) -> tuple[Lane, ...]:
    """Return the lanes to compare: the new draft, an older draft, lookup drafting, and early exit.

    The older draft is the draft of ``spec``. It is left out if ``spec`` has another target. Early
    exit is left out if there is an older draft, or if the target's number of layers (``layers``) is
    not known.
    """
    own = RunConfig(
        temperature=0.0, gamma=gamma, drafter=first_method(made.draft_kind).name, chat=chat,
        max_new_tokens=_LENGTH,
    )  # fmt: skip
    lanes = [Lane(spec=made, config=own, name="trained")]
    older = spec.without_bodies
    if older.draft_kind and older.target_place == made.target and older.draft != made.draft:
        method = first_method(older.draft_kind).name
        config = replace(own, drafter=method, gamma=default_gamma(older))
        lanes.append(Lane(spec=older, config=config, name="older draft"))
    exits = early_exits(layers)[:1] if layers else []
    lanes += [
        Lane(spec=made, config=replace(own, drafter=each, gamma=RunConfig().gamma), name=each)
        for each in (*_LOOKUPS, *exits)
    ]
    return tuple(lanes[:MAX_LANES])


def _layers_of(spec: PairSpec) -> int | None:
    """Return how many layers the target has; None if the worker was not asked yet."""
    room = known_room(spec)
    return None if room is None or room.target is None else room.target.shape.layers


def held_out_items(used: tuple[str, ...], *, chat: bool) -> tuple[SuiteItem, ...]:
    """Return the shipped prompts that the training did not use.

    Raises:
        ConfigError: The training used all shipped prompts.
    """
    known = {*used}
    for suite in (chat_suite, preset_suite) if chat else (preset_suite,):
        items = tuple(each for each in suite() if each.prompt not in known and not each.before)
        if items:
            return items
    raise ConfigError(
        "The training used all shipped prompts.", remedy="Use a file of prompts on Compare."
    )


def plan_of(job: TrainingJob, made: PairSpec, spec: PairSpec, gamma: int, *, chat: bool) -> Plan:
    """Plan the comparison of the new draft with the other drafters of ``lanes_of``.

    Raises:
        SpecvizError: There are no prompts that the training did not use.
    """
    items = held_out_items(job.work.plan.texts.prompts, chat=chat)
    lanes = lanes_of(made, spec, gamma, chat=chat, layers=_layers_of(spec))
    return Plan(lanes=lanes, items=items, repeats=1)


def _show_before_and_after(
    job: TrainingJob, made: PairSpec, spec: PairSpec, gamma: int, *, chat: bool
) -> None:
    st.markdown("#### Before and after")
    st.caption(
        "Compares the new draft with the pair's older draft, prompt lookup and suffix lookup. If "
        "the pair has no older draft, early exit takes its place. The runs are at temperature 0, "
        "with shipped prompts that the training did not use. Every run is timed against the target "
        "alone, which decodes the same tokens."
    )
    press_button("Compare before and after", key="train_compare")
    if take_press("train_compare"):
        try:
            plan = plan_of(job, made, spec, gamma, chat=chat)
            put_shown(start_comparison(BEFORE_AND_AFTER, plan, fresh=False))
        except SpecvizError as error:
            show_error(error)
    compared: Any = shown_job(BEFORE_AND_AFTER, ComparisonJob)
    if compared is None or made not in [each.spec for each in compared.plan.lanes]:
        return
    follow(compared)
    found = None if compared.going else findings_of(BEFORE_AND_AFTER, compared)
    if found is not None:
        show_results(found, BEFORE_AND_AFTER)

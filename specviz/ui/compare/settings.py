"""Settings that all lanes of a comparison share: prompt or suite, seed, length, repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from specviz.comparison.plan import Lane, Plan, check_compared
from specviz.errors import ConfigError, SpecvizError
from specviz.record.limits import COMPARED
from specviz.record.prompts import (
    CHAT_PROMPTS,
    NO_KIND,
    PRESETS,
    SHIPPED_SUITES,
    SuiteItem,
    kind_of,
    typed_text,
)
from specviz.ui.widgets.cluster_box import choose_cluster
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.prompt_boxes import (
    FILE,
    OWN_SUITES,
    TYPED,
    PromptBoxes,
    typed_key,
    uploaded_items,
)
from specviz.ui.widgets.run_controls import choose_chat_template, watched_chat
from specviz.values import Value

_LINKED = "query-params"
_ON_CLUSTER = "compare_on_cluster"
_CHAT = "compare_chat"
_PROMPT = PromptBoxes("compare_")
_LENGTH, _SEED = COMPARED["max_new_tokens"], COMPARED["seed"]
_REPEATS, _MOST_REPEATS = 5, 20
_SUITE = "compare_suite_source"
_SUITE_CHAT = "compare suite chat"  # whether the lanes used a chat template
_OWN_KEY = "compare_suite_file"
_SOURCES = (PRESETS, CHAT_PROMPTS, TYPED, FILE)


class Shared(Value):
    """The values of the sidebar's controls, which apply to all lanes."""

    prompt: str
    kind: str | None
    seed: int
    length: int
    repeats: int
    ignore_eos: bool
    chat: bool = False


class Suite(Value):
    """The prompts of the tab “By kind”, or the error in the user's own prompts."""

    items: tuple[SuiteItem, ...] = ()
    repeats: int = 1
    error: SpecvizError | None = None


def choose_shared(*, has_chat: bool) -> Shared:
    """Draw the controls and return their values.

    Args:
        has_chat: Whether the target of the page's pair has a chat template.
    """
    prompt = _PROMPT.choose(chat=has_chat and bool(st.session_state.get(_CHAT, watched_chat())))
    length = st.slider(
        "Length, tokens", *_LENGTH.whole_ends, 64, 8, key="compare_length",
        bind=_LINKED,
    )  # fmt: skip
    repeats = st.slider(
        "Repeats", 1, _MOST_REPEATS, _REPEATS, key="compare_repeats", bind=_LINKED,
        help="Each repeat has its own seed, which all lanes use. With one repeat, the interval "
            "covers only the timing noise.",
    )  # fmt: skip
    seed = st.number_input("First seed", *_SEED.whole_ends, 0, key="compare_seed", bind=_LINKED)
    ignore_eos = st.toggle(
        "Continue after the end of the text", key="compare_ignore_eos",
        bind=_LINKED, help="Ignores the EOS token, so that all runs have the same length.",
    )  # fmt: skip
    choose_cluster(_ON_CLUSTER, "Makes the runs")
    return Shared(
        prompt=prompt,
        kind=kind_of(prompt),
        seed=int(seed),
        length=length,
        repeats=repeats,
        ignore_eos=ignore_eos,
    )


def choose_chat(targets: Sequence[bool]) -> bool:
    """Draw the chat template setting if every lane's target has a template; return its value.

    Args:
        targets: For every lane, whether its target has a template.
    """
    if all(targets):
        return choose_chat_template(
            _CHAT, "Puts the prompts of a lane into the chat template of the lane's target."
        )
    if any(targets):
        st.caption("No lane uses a chat template, because not every lane's target has one.")
    return False


def on_cluster() -> bool:
    return bool(st.session_state.get(_ON_CLUSTER))


def choose_suite(*, chat: bool) -> Suite:
    """Draw the controls that choose prompts of several kinds; return the chosen prompts.

    The prompts are shipped with specviz, typed or uploaded.

    An error in typed or uploaded prompts is returned as ``error``, not raised.

    Args:
        chat: Whether the lanes use a chat template; then chat prompts are the default.
    """
    first, other = (CHAT_PROMPTS, PRESETS) if chat else (PRESETS, CHAT_PROMPTS)
    if st.session_state.get(_SUITE) == other and st.session_state.get(_SUITE_CHAT) != chat:
        st.session_state[_SUITE] = first
    st.session_state[_SUITE_CHAT] = chat
    with st.container(horizontal=True, vertical_alignment="bottom"):
        source = st.segmented_control("Prompts", _SOURCES, default=first, key=_SUITE)
        repeats = st.number_input(
            "Repeats of each", 1, _MOST_REPEATS, _REPEATS, key="compare_suite_repeats", width=150
        )
    try:
        own = partial(OWN_SUITES.get(source or "", uploaded_items), _OWN_KEY)
        items = SHIPPED_SUITES.get(source or "", own)()
    except SpecvizError as error:
        return Suite(error=error)
    return Suite(items=_of_chosen_kinds(items), repeats=int(repeats))


def _of_chosen_kinds(items: Sequence[SuiteItem]) -> tuple[SuiteItem, ...]:
    """Return the prompts of the kinds that the user chooses.

    If all prompts have the same kind, return all of them and draw no control.
    """
    kinds = _kinds(items)
    if len(kinds) < 2:
        return tuple(items)
    # The kinds are part of the key, so that another suite starts with all of its kinds.
    chosen = st.pills(
        "Kinds", kinds, selection_mode="multi", default=kinds, key=_kinds_key(kinds),
        format_func=as_text,
    )  # fmt: skip
    return tuple(each for each in items if (each.kind or NO_KIND) in chosen)


def _kinds(items: Sequence[SuiteItem]) -> list[str]:
    return list(dict.fromkeys(each.kind or NO_KIND for each in items))


def _kinds_key(kinds: Sequence[str]) -> str:
    return f"compare_suite_kinds {sorted(kinds)}"


def take_settings(plan: Plan) -> None:
    """Set the controls to the settings that the plan's lanes share.

    Call this before the controls are drawn.
    """
    state, config = st.session_state, plan.lanes[0].config
    repeats = min(plan.repeats, _MOST_REPEATS)
    state["compare_length"] = int(_LENGTH.nearest(config.max_new_tokens))
    state["compare_seed"] = int(_SEED.nearest(config.seed))
    state["compare_ignore_eos"], state[_CHAT] = config.ignore_eos, config.chat
    if len(plan.items) == 1:
        _PROMPT.put(plan.items[0].prompt)
        state["compare_repeats"] = repeats
    else:
        source = _source_of(plan)
        state[_SUITE], state[_SUITE_CHAT] = source, config.chat
        if source in SHIPPED_SUITES:
            state[_kinds_key(_kinds(SHIPPED_SUITES[source]()))] = _kinds(plan.items)
        if source == TYPED:
            state[typed_key(_OWN_KEY)] = typed_text(plan.items)
        state["compare_suite_repeats"] = repeats


def _source_of(plan: Plan) -> str:
    """Return where the plan's prompts come from: a shipped suite, typed prompts, or a file.

    A plan need not use all kinds of a shipped suite.
    """
    for name, made in SHIPPED_SUITES.items():
        kinds = _kinds(plan.items)
        if tuple(each for each in made() if each.kind in kinds) == plan.items:
            return name
    return FILE if typed_text(plan.items) is None else TYPED


def unsupported_by_controls(plan: Plan) -> tuple[str, ...]:
    """Return a sentence for each setting that ``take_settings`` cannot apply."""
    config, found = plan.lanes[0].config, list[str]()
    if config.max_new_tokens not in _LENGTH:
        found.append(f"The length is out of range: this page allows {_LENGTH} tokens.")
    if plan.repeats > _MOST_REPEATS:
        found.append(f"The plan has more than the {_MOST_REPEATS} repeats that this page allows.")
    if config.stop:
        found.append("Stop strings cannot be set on this page.")
    if len(plan.items) > 1 and _source_of(plan) == FILE:
        found.append("The prompts came from a file; choose that file again.")
    return tuple(found)


def plan_of(
    lanes: Sequence[Lane], items: Sequence[SuiteItem], shared: Shared, repeats: int
) -> Plan:
    """Return the plan that runs every lane on every prompt ``repeats`` times.

    Raises:
        SpecvizError: There are no prompts, one is empty, or the lanes cannot be compared.
    """
    if not items:
        raise ConfigError(
            "There are no prompts.",
            remedy="Choose shipped prompts or a file, and at least one kind.",
        )
    if not all(item.prompt.strip() for item in items):
        which = "The prompt" if len(items) == 1 else "A prompt"
        raise ConfigError(f"{which} is empty.", remedy="Write a few words or choose a preset.")
    common: dict[str, Any] = {
        "seed": shared.seed,
        "max_new_tokens": shared.length,
        "ignore_eos": shared.ignore_eos,
        "chat": shared.chat,
        "record": len(items) == 1,  # with one prompt, the race also shows both distributions
    }
    check_compared(lanes)
    planned = tuple(replace(each, config=replace(each.config, **common)) for each in lanes)
    if len(set(planned)) < len(planned):
        raise ConfigError("Two lanes are identical.", remedy="Change or remove one of these lanes.")
    return Plan(lanes=planned, items=tuple(items), repeats=repeats)


def one_item(shared: Shared) -> tuple[SuiteItem, ...]:
    return (SuiteItem(prompt=shared.prompt, kind=shared.kind),)

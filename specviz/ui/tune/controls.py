"""The controls of Tune: texts, sampling settings, and the drafts and methods to compare."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.comparison.plan import Lane, parse_lane
from specviz.errors import ConfigError, SpecvizError
from specviz.record.bodies import NO_BODY
from specviz.record.drafters import first_method
from specviz.record.limits import CONTROLS, MAX_TEXT_BUDGET, TEXT_BUDGET
from specviz.record.pairs import PairSpec
from specviz.record.prompts import CHAT_PROMPTS, PRESETS, SHIPPED_SUITES, SuiteItem, kind_of
from specviz.record.trace import RunConfig, StepCosts
from specviz.tune.given_costs import given_costs
from specviz.tune.question import (
    MAX_CANDIDATES,
    MAX_TEMPERATURES,
    TEMPERATURES,
    Question,
    check_candidate,
    enough_continuations,
    with_draft,
)
from specviz.ui.session.body_rooms import known_room
from specviz.ui.session.machine_models import found_place
from specviz.ui.widgets.body_boxes import offered, size_title
from specviz.ui.widgets.cluster_box import choose_cluster
from specviz.ui.widgets.method_boxes import early_exits
from specviz.ui.widgets.pair_panel import num_layers
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.prompt_boxes import FILE, OWN_SUITES, TYPED, PromptBoxes
from specviz.ui.widgets.run_controls import (
    choose_chat_template,
    start_like_watch,
    watched_chat,
    watched_temperature,
)
from specviz.values import Value

_LINKED, _CHAT = "query-params", "tune_chat"
_PROMPT = PromptBoxes("tune_")
_ONE, _PASTED = "One prompt", "Pasted text"
SOURCES = (_ONE, TYPED, PRESETS, CHAT_PROMPTS, FILE, _PASTED)
_LOOKUPS = ("drafter=prompt-lookup", "drafter=suffix")
_METHODS = (
    "rule=block", "rule=coupled", "rule=match", "num_drafts=2", "num_drafts=4",
    "branching=2x2x1", "dynamic_tree=4x12", "draft_until=confidence:0.4", "draft_until=cost",
)  # fmt: skip
_TEMPERATURE_KEY, _TEMPERATURE = "tune_temperature", 0.7
_TEMPERATURES = tuple(tenths / 10 for tenths in range(21))
_LENGTH, _SEED = CONTROLS["max_new_tokens"], CONTROLS["seed"]


class Texts(Value):
    """What to score: prompts that the target continues, or a given text."""

    items: tuple[SuiteItem, ...] = ()
    text: str | None = None
    error: SpecvizError | None = None


class TuneSettings(Value):
    """The values of the controls."""

    texts: Texts
    config: RunConfig
    further: tuple[str, ...]
    bodies: tuple[str, ...]  # simulated sizes of the draft
    lookup: bool
    methods: tuple[str, ...] = ()  # other methods, such as "num_drafts=4"
    refused: tuple[tuple[str, str], ...] = ()  # (method that is left out, reason)
    given: StepCosts | None = None  # the step costs of another machine
    on_cluster: bool = False
    text_budget: float = TEXT_BUDGET
    temperatures: tuple[float, ...] = TEMPERATURES  # of the map

    def question(self, spec: PairSpec) -> Question:
        """Return what Tune is to compute for this pair with the settings of the controls.

        Raises:
            SpecvizError: There are no texts, or a setting is invalid.
        """
        if self.texts.error is not None:
            raise self.texts.error
        if not self.texts.items:
            raise ConfigError(
                "No texts are chosen.", remedy="Type prompts, or choose a file or the presets."
            )
        temperatures = {*self.temperatures, self.config.temperature}
        return Question(
            lanes=self._lanes(spec),
            items=self.texts.items,
            temperatures=tuple(sorted(temperatures)),
            text=self.texts.text,
            continuations=1 if self.texts.text else enough_continuations(self.texts.items),
            text_budget=self.text_budget,
        )

    def _lanes(self, spec: PairSpec) -> tuple[Lane, ...]:
        first = Lane(spec=spec, config=self.config)
        others = [
            with_draft(first, found_place(draft), spec.target_place) for draft in self.further
        ]
        others += [replace(first, spec=replace(spec, draft_body=each)) for each in self.bodies]
        if self.lookup and self.texts.text is None:
            lookups = _LOOKUPS[:1] if spec.served else _LOOKUPS
            others += [parse_lane(each, first) for each in lookups]
        others += [parse_lane(each, first) for each in self.methods]
        return tuple(dict.fromkeys((first, *others)))


def choose_settings(spec: PairSpec, *, has_chat: bool) -> TuneSettings:
    """Draw the controls and return their values; ``spec`` is the pair that the page shows."""
    texts = _choose_texts(chat=has_chat and bool(st.session_state.get(_CHAT, watched_chat())))
    start_like_watch(_TEMPERATURE_KEY, watched_temperature(), _TEMPERATURE)
    temperature = st.slider(
        "Temperature", *CONTROLS["temperature"].ends, _TEMPERATURE, 0.05,
        key=_TEMPERATURE_KEY, bind=_LINKED,
        help="The advice and the ranking apply to this temperature. The map also shows "
        "other temperatures.",
    )  # fmt: skip
    with st.expander("Other drafts and methods", key="tune_drafts"):
        lookup, further = _choose_drafts(has_draft=bool(spec.draft_kind))
        bodies = _choose_bodies(spec)
        methods, refused = _choose_methods(spec, copies=texts.text is None)
    with st.expander("More settings", key="tune_more"):
        config = _choose_config(
            RunConfig(
                temperature=round(temperature, 2),
                drafter=first_method(spec.draft_kind).name,
            ),
            has_chat=has_chat and texts.text is None,  # a template cannot be applied to pasted text
        )
        temperatures = st.multiselect(
            "Temperatures of the map", _TEMPERATURES, TEMPERATURES, key="tune_temperatures",
            bind=_LINKED, max_selections=MAX_TEMPERATURES - 1, format_func="{:g}".format,
            help="The map always includes the chosen temperature, which is computed first.",
        )  # fmt: skip
        text_budget = st.number_input(
            "Seconds for more texts", 0, MAX_TEXT_BUDGET, TEXT_BUDGET, 10,
            key="tune_text_budget", bind=_LINKED,
            help="With a single prompt, the target writes several continuations until this time is "
            "over. It stops earlier if the interval of the best setting is within ± 10 %, or if "
            "most of this interval comes from the uncertainty of the step costs.",
        )  # fmt: skip
        on_cluster = choose_cluster("tune_on_cluster", "Scores the texts")
    with st.expander("Another machine's costs", key="tune_machine"):
        given = _choose_costs()
    return TuneSettings(
        texts=texts, config=config, further=further, bodies=bodies, lookup=lookup,
        methods=methods, refused=refused, given=given, on_cluster=on_cluster,
        text_budget=text_budget, temperatures=tuple(temperatures),
    )  # fmt: skip


def _choose_texts(*, chat: bool) -> Texts:
    source = st.selectbox(
        "Texts", SOURCES, key="tune_source", bind=_LINKED,
        help="The target continues the prompts at each temperature. Pasted text is scored "
        "unchanged. Its acceptance probabilities apply to this text, not to texts that the target "
        "writes.",
    )  # fmt: skip
    if source == _ONE:
        prompt = _PROMPT.choose(chat=chat)
        if not prompt.strip():
            problem = ConfigError(
                "The prompt is empty.", remedy="Write a few words or choose a preset."
            )
            return Texts(error=problem)
        return Texts(items=(SuiteItem(prompt=prompt, kind=kind_of(prompt)),))
    if source in SHIPPED_SUITES:
        return Texts(items=SHIPPED_SUITES[source]())
    if source == _PASTED:
        return _pasted()
    try:
        return Texts(items=OWN_SUITES[source]("tune_suite"))
    except SpecvizError as error:
        return Texts(error=error)


def _pasted() -> Texts:
    text = st.text_area("Text to score", key="tune_text", height=160)
    if not text.strip():
        problem = ConfigError("There is no text.", remedy="Paste a text.")
        return Texts(error=problem)
    return Texts(items=(SuiteItem(prompt=""),), text=text)


def _choose_bodies(spec: PairSpec) -> tuple[str, ...]:
    """Draw a choice of further simulated sizes for the draft, and return the chosen sizes.

    The draft's real size and the size that the pair has now are not offered.
    """
    room = known_room(spec)
    if room is None or room.draft is None or not spec.has_draft:
        return ()
    bodies = [
        each
        for each in offered(room.draft, room, spec.draft_body)
        if each not in (NO_BODY, spec.draft_body)
    ]
    return tuple(
        st.multiselect(
            "Simulated draft sizes to try", bodies, key="tune_bodies", max_selections=3,
            format_func=lambda each: size_title(each, room.draft, room),
            help="The draft's tokens stay the same; its steps become as slow as those of a larger "
            "model.",
        )
    )  # fmt: skip


def show_refused(settings: TuneSettings) -> None:
    """Warn about requested methods that are left out, for example methods from a link."""
    for text, why in settings.refused:
        st.warning(f"{as_text(text)} is left out. {as_text(why)}")


def _choose_methods(
    spec: PairSpec, *, copies: bool
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Draw the choice of further methods. Return valid methods, and refused methods with reasons.

    Args:
        copies: Whether drafters that copy from the text are allowed.
    """
    first = Lane(spec=spec, config=RunConfig(drafter=first_method(spec.draft_kind).name))
    drafters = [f"drafter={each}" for each in early_exits(num_layers(spec))]
    fitting = [each for each in (*drafters, *_METHODS) if _refusal_of(each, first) is None]
    typed = st.multiselect(
        "Other methods", fitting, key="tune_ways", bind=_LINKED, accept_new_options=True,
        max_selections=MAX_CANDIDATES,
        help="All methods are compared on the same texts. You can type other methods as on the "
        "command line: `num_drafts=8`, `branching=3x2x1`, `draft_until=confidence:0.3`, "
        "`drafter=early-exit:4`, or several settings joined with commas.",
    )  # fmt: skip
    found, refused = list[str](), list[tuple[str, str]]()
    for text in dict.fromkeys(typed):
        if (why := _refusal_of(text, first)) is not None:
            refused.append((text[:60], why))
        elif copies or parse_lane(text, first).config.draft_method.has_steps:
            found.append(text)
    return tuple(found), tuple(refused)


def _refusal_of(text: str, first: Lane) -> str | None:
    """Return why the method ``text`` cannot be compared with ``first``; None if it can."""
    try:
        check_candidate(parse_lane(text, first).config, first.config)
    except SpecvizError as error:
        return str(error)
    return None


def _choose_costs() -> StepCosts | None:
    st.caption(
        "Acceptance does not depend on the machine. For the map of another machine, give the "
        "times of a draft step and a verification on that machine, each divided by the time of a "
        "target step on it."
    )
    if not st.toggle("Use these costs", key="tune_given", bind=_LINKED):
        return None
    c = st.number_input(
        "c, a draft step", 0.0, 10.0, 0.05, 0.01, format="%.3f", key="tune_c", bind=_LINKED
    )
    v = st.number_input(
        "v, verification", 0.1, 50.0, 1.1, 0.05, format="%.2f", key="tune_v", bind=_LINKED
    )
    return given_costs(c, v)


def _choose_drafts(*, has_draft: bool) -> tuple[bool, tuple[str, ...]]:
    """Draw the choice of drafts.

    Return whether to try lookup drafting, and the names of further drafts.
    """
    lookup = not has_draft or st.toggle(
        "Prompt lookup and suffix lookup", True, key="tune_lookup", bind=_LINKED,
        help="Both search the text for an earlier occurrence of its last tokens, and draft the "
        "tokens that followed there. They need no draft model.",
    )  # fmt: skip
    typed = st.text_area(
        "Further drafts for this target, one per line", key="tune_further", height=90,
        help="Names of models on this machine, Hub ids or folders. The drafts are loaded when you "
        "press the button.",
    )  # fmt: skip
    named = tuple(dict.fromkeys(line.strip() for line in typed.splitlines() if line.strip()))
    return lookup, named[: MAX_CANDIDATES - 6]


def _choose_config(config: RunConfig, *, has_chat: bool) -> RunConfig:
    """Draw the controls of length, sampling and chat; return ``config`` with their values."""
    length = st.slider(
        "Length, tokens", *_LENGTH.whole_ends, 128, 8, key="tune_length", bind=_LINKED
    )
    top_k = st.number_input(
        "Top-k", *CONTROLS["top_k"].whole_ends, 0, key="tune_top_k", bind=_LINKED
    )
    top_p = st.slider("Top-p", *CONTROLS["top_p"].ends, 1.0, 0.05, key="tune_top_p", bind=_LINKED)
    seed = st.number_input("Seed", *_SEED.whole_ends, 0, key="tune_seed", bind=_LINKED)
    ignore_eos = st.toggle(
        "Continue after the end of the text", key="tune_ignore_eos", bind=_LINKED,
        help="The target ignores the end-of-text token, so that all texts have the same length.",
    )  # fmt: skip
    chat = has_chat and choose_chat_template(_CHAT)
    return replace(
        config, max_new_tokens=length, top_k=int(top_k), top_p=round(top_p, 2), seed=int(seed),
        ignore_eos=ignore_eos, chat=chat,
    )  # fmt: skip

"""The controls of Train: the folder, the draft, the texts, the length of the training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import streamlit as st

from specviz.errors import ConfigError, SpecvizError
from specviz.record.prompts import CHAT_PROMPTS, PRESETS, SHIPPED_SUITES
from specviz.record.trace import Trace
from specviz.store.rows import Query
from specviz.training.drafts.kept_trainings import (
    KeptTraining,
    folder_named,
    kept_training,
    kept_trainings,
)
from specviz.training.drafts.plan import KINDS, DraftKind, TextPlan, TrainingPlan
from specviz.ui.access import reachable_by_others
from specviz.ui.session.run_saving import the_library
from specviz.ui.widgets.prompt_boxes import uploaded_items
from specviz.values import Value

KIND_NAMES: dict[DraftKind, str] = {
    "eagle3": "EAGLE-3 head",
    "medusa": "Medusa heads",
    "small": "Small model",
}
_KINDS: dict[str, DraftKind] = {each: each for each in KINDS}
_SHORT = {"eagle3": "EAGLE-3", "medusa": "Medusa", "small": "Small"}
_OWN, _RUNS, _FILE = "The target's own", "Prompts of kept runs", "A file of mine"
SOURCES = (_OWN, PRESETS, CHAT_PROMPTS, _RUNS, _FILE)
FOLDER = "train_folder"
_LINKED = "query-params"
_MOST_RUNS = 200  # kept runs whose prompts are read
_DEFAULTS = TrainingPlan()


class Settings(Value):
    """The settings of a training. ``kept``: the earlier training in the folder, if any."""

    shown: TrainingPlan  # without the prompts of kept runs, which ``plan`` adds
    folder: str
    source: str = _OWN
    kept: KeptTraining | None = None
    error: SpecvizError | None = None

    def plan(self) -> TrainingPlan:
        """Return the training plan.

        Raises:
            SpecvizError: A setting is invalid, or there are no prompts.
        """
        if self.error is not None:
            raise self.error
        if self.source == _RUNS and self.kept is None:
            texts = replace(self.shown.texts, prompts=_prompts_of_runs())
            return replace(self.shown, texts=texts)
        return self.shown

    def place(self) -> Path:
        """Return the path of the training's folder.

        Raises:
            SpecvizError: The folder's name is not valid.
        """
        return place_of(self.folder)


def place_of(name: str) -> Path:
    """Return the path of the training with this name.

    If only this machine can reach the dashboard, the name may also be an absolute path.
    """
    path = Path(name.strip()).expanduser()
    if path.is_absolute() and name.isprintable() and not reachable_by_others():
        return path
    return folder_named(name)


def choose_settings(target: str) -> Settings:
    """Draw the controls and return their values.

    Args:
        target: The target's name. The default name of the folder begins with it.
    """
    chosen = st.segmented_control(
        "What to train", KINDS, default=_DEFAULTS.kind, key="train_kind", bind=_LINKED,
        format_func=_SHORT.__getitem__, required=True, on_change=_forget_folder,
        help="EAGLE-3 and Medusa heads read the target's hidden states. A small model reads only "
        "the text.",
    )  # fmt: skip
    kind = _KINDS.get(str(chosen), _DEFAULTS.kind)
    folder = _choose_folder(f"{target}-{kind}")
    try:
        kept = kept_training(place_of(folder))
    except SpecvizError as error:
        return Settings(shown=_DEFAULTS, folder=folder, error=error)
    if kept is not None:
        return _settings_of(kept, folder)
    source, prompts, problem = _choose_source()
    try:
        texts = _choose_texts(prompts)
        with st.expander("More settings", key="train_more"):
            plan = _choose_plan(kind, texts)
    except SpecvizError as error:
        return Settings(shown=_DEFAULTS, folder=folder, source=source, error=error)
    return Settings(shown=plan, folder=folder, source=source, error=problem)


def _choose_folder(default: str) -> str:
    known = [each.folder.name for each in kept_trainings()]
    typed = [each] if (each := st.session_state.get(FOLDER)) else []
    options = list(dict.fromkeys((default, *known, *typed)))
    chosen = st.selectbox(
        "Folder", options, key=FOLDER, accept_new_options=True,
        help="This folder stores texts, hidden states, checkpoints and the draft. Choose the "
        "folder of an earlier training to continue that training, or type a new name.",
    )  # fmt: skip
    return str(chosen or default)


def _forget_folder() -> None:
    """Reset the folder to the default, which is named after the target and the kind of draft."""
    st.session_state.pop(FOLDER, None)


def _settings_of(kept: KeptTraining, folder: str) -> Settings:
    """Return an earlier training's settings, with the number of steps that the user chooses.

    The other settings of an earlier training cannot be changed.
    """
    plan = kept.plan
    st.caption(
        f"This folder contains a training: {KIND_NAMES[plan.kind]}, {plan.texts.count:,} texts, at "
        f"step {kept.step:,} of {plan.steps:,}. Only the number of steps can be changed."
    )
    steps = int(
        st.number_input(
            "Steps", 1, 10_000_000, max(plan.steps, 1), 100, key=f"train_steps_of_{folder}"
        )
    )
    return Settings(shown=replace(plan, steps=steps), folder=folder, kept=kept)


def _choose_source() -> tuple[str, tuple[str, ...], SpecvizError | None]:
    """Draw the choice of training texts. Return the chosen source, its prompts, and the error.

    The error is None unless the file of prompts is missing or invalid.
    """
    source = st.selectbox(
        "Texts", SOURCES, key="train_source", bind=_LINKED,
        help="The target writes the texts from which the draft learns. With “The target's own”, "
        "it writes conversations and answers to tasks, or plain texts if it has no chat template. "
        "With the other choices, it answers the chosen prompts.",
    )  # fmt: skip
    if source in SHIPPED_SUITES:
        return source, tuple(each.prompt for each in SHIPPED_SUITES[source]()), None
    if source != _FILE:
        return source, (), None
    try:
        prompts = tuple(each.prompt for each in uploaded_items("train_suite"))
    except SpecvizError as error:
        return source, (), error
    missing = ConfigError("No file is chosen.", remedy="Choose a file of prompts.")
    return source, prompts, None if prompts else missing


def _choose_texts(prompts: tuple[str, ...]) -> TextPlan:
    default = _DEFAULTS.texts
    count = st.number_input(
        "Number of texts", 8, 1_000_000, default.count, 100, key="train_texts", bind=_LINKED,
        help="Additional texts improve the draft more than additional steps over the same texts.",
    )  # fmt: skip
    longest = st.number_input(
        "Maximum tokens per text", 16, 8192, default.longest, 64, key="train_longest",
        bind=_LINKED, help="Includes the prompt. A text is shorter if the target ends it.",
    )  # fmt: skip
    return replace(default, count=int(count), longest=int(longest), prompts=prompts)


def _choose_plan(kind: DraftKind, texts: TextPlan) -> TrainingPlan:
    def number(label: str, low: int, high: int, name: str, step: int, hint: str = "") -> int:
        default = getattr(_DEFAULTS, name)
        key = f"train_{name}"
        return int(
            st.number_input(label, low, high, default, step, key=key, bind=_LINKED, help=hint)
        )

    steps = number("Steps", 1, 10_000_000, "steps", 100)
    batch = number("Texts in a step", 1, 1024, "batch", 1)
    length = number("Tokens per text in a training step", 16, 8192, "length", 16)
    layers = _DEFAULTS.layers
    if kind == "small":
        layers = number("Layers", 1, 8, "layers", 1)
    vocabulary = number(
        "Tokens that the draft can propose", 0, 1_000_000, "vocabulary", 512,
        "The draft can propose only this many tokens: the most frequent tokens of the texts. "
        "Fewer tokens make a draft step cheaper. 0 means all tokens.",
    )  # fmt: skip
    positions = number(
        "Trained positions", 1, 8, "positions", 1,
        "The loss covers this many consecutive candidates. Medusa trains one head per candidate.",
    )  # fmt: skip
    rate = st.number_input(
        "Learning rate", 1e-6, 0.5, _DEFAULTS.rate, 1e-4, format="%.5f", key="train_rate",
        bind=_LINKED,
    )  # fmt: skip
    seed = number("Seed", 0, 2**31 - 1, "seed", 1, "Equal seeds and settings give equal weights.")
    return TrainingPlan(
        kind=kind, texts=replace(texts, seed=seed), vocabulary=vocabulary, positions=positions,
        layers=layers, steps=steps, batch=batch, length=length, rate=rate, seed=seed,
    )  # fmt: skip


def _prompts_of_runs() -> tuple[str, ...]:
    """Return the prompts of the latest saved runs, without duplicates.

    Raises:
        SpecvizError: No runs are saved.
    """
    library = the_library()
    rows = library.find(Query(limit=_MOST_RUNS))
    traces = (library.open_any(each.id) for each in rows)
    found = dict.fromkeys(each.prompt.text for each in traces if isinstance(each, Trace))
    if not any(found):
        raise ConfigError("No runs are kept.", remedy="Choose other texts.")
    return tuple(each for each in found if each)

"""The controls that choose a pair from the models that a search found on this machine.

The controls also list the models that cannot be used, with reasons. The link contains the models'
short names, which the command line also accepts. Choosing models loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import streamlit as st

from specviz.errors import ConfigError
from specviz.local_models.added_folders import add_folders, added_folders, forget_folder
from specviz.local_models.fitting import Fit
from specviz.local_models.local_model import LocalModel, Skipped
from specviz.record.numbers import COUNT, PROBABILITY, WHOLE_PERCENT, times
from specviz.record.pairs import PairSpec
from specviz.ui.session.machine_models import (
    Activity,
    MachineModels,
    itemsize_of,
    lists_models,
    size_in_memory,
    the_machine_models,
)
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.choice_box import choice_box
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.values import Value

TARGET_MODEL, DRAFT_MODEL = MACHINE_BOXES = ("target_model", "draft_model")  # in the link
_NO_DRAFT = "none"
_CHOSEN = "machine models chosen"
_REFUSED = "machine folder refused"
_FOLDER = "model_folder"
_SEEN = "machine models' activity"  # the first busy one since the controls were last drawn
_NAME_IN_LIST = 18  # characters of a name that fit into the closed list in the sidebar
_MOST_SHOWN = 200  # reasons
_TICK = 0.5  # seconds


class MachinePair(Value):
    """The chosen target, the drafts that fit it, and the chosen draft."""

    target: LocalModel
    fits: tuple[Fit, ...]
    draft: Fit | None

    @property
    def shares_vocabulary(self) -> bool | None:
        """Whether the draft must propose only shared tokens, because the tokenizers differ.

        None if the tokenizers have not been compared.
        """
        if self.draft is None:
            return False
        return None if self.draft.share is None else not self.draft.same_tokenizer


def chosen_models(options: PairSpec) -> MachinePair | None:
    """Return the chosen models; None without a target. The first call starts a search.

    Args:
        options: The device, dtype and weights with which a pair would be loaded.
    """
    if not lists_models():
        return None
    models = the_machine_models()
    models.search_once()
    seen = models.activity()  # before the models, which may be found at any moment
    target = models.named(_choice(TARGET_MODEL))
    st.session_state[_SEEN] = st.session_state.get(_SEEN) or seen or models.activity(target)
    if target is None:
        return None
    fits = models.drafts_for(target, options)
    return MachinePair(target=target, fits=fits, draft=_chosen_draft(fits))


def _chosen_draft(fits: tuple[Fit, ...]) -> Fit | None:
    """Return the chosen draft or, if the user has not chosen yet, the default draft."""
    name = _choice(DRAFT_MODEL)
    chosen = next((each for each in fits if each.model.short == name), None)
    if chosen is not None or name == _NO_DRAFT:
        return chosen
    return _default_draft(fits)


def _default_draft(fits: tuple[Fit, ...]) -> Fit | None:
    """Return the best draft that has the target's tokenizer and may fit into memory, else None."""
    return next((each for each in fits if each.same_tokenizer and each.fits is not False), None)


def keep_models(target: str | None, draft: str | None) -> None:
    """Store the draft as the user's choice, because the pair is about to be loaded.

    Without a stored choice, a later search that finds a better draft would change the pair.
    """
    models = the_machine_models()
    chosen = models.named(_choice(TARGET_MODEL))
    if chosen is None or chosen.place != target:
        return
    found = models.at(draft)
    if draft is None or found is not None:
        _choose(DRAFT_MODEL, found.short if found else _NO_DRAFT)


def forget_link() -> None:
    """Remove the models from the link, but keep them in the session state."""
    for box in MACHINE_BOXES:
        st.query_params.pop(box, None)


def show_machine_boxes(options: PairSpec, on_change: Callable[[], object]) -> None:
    """Draw the controls that choose the models.

    Args:
        options: The device, dtype and weights with which a pair would be loaded.
        on_change: Called when the user chooses another model.
    """
    if not lists_models():
        st.caption("Others can reach this dashboard, so it does not list this machine's models.")
        return
    models, pair = the_machine_models(), chosen_models(options)
    if pair is not None:
        models.compare(pair.target)
    if models.found.models or not models.activity().searching:
        _show_target(models, pair, itemsize_of(options.dtype, options.device), on_change)
    if pair is not None:
        _show_draft(pair, on_change)
    _link(pair)
    _show_activity(models, pair)
    _show_places(models)


def _show_target(
    models: MachineModels,
    pair: MachinePair | None,
    itemsize: int | None,
    on_change: Callable[[], object],
) -> None:
    targets = [each for each in models.found.models if not each.facts.is_head]
    found = {each.short: _target_words(each) for each in targets}
    choice_box(
        TARGET_MODEL, "Target, on this machine", found,
        pair.target.short if pair is not None else None,
        lambda short: _take_target(short, on_change),
        placeholder="Choose a model" if found else "No models found",
    )  # fmt: skip
    if pair is not None:
        st.caption(as_text(_joined(*_long_name(pair.target), _facts_words(pair.target, itemsize))))
    elif (name := _choice(TARGET_MODEL)) and not models.activity():
        st.caption(f"{as_text(name)} is not on this machine.")


def _show_draft(pair: MachinePair, on_change: Callable[[], object]) -> None:
    fits: dict[str, Fit | None] = {each.model.short: each for each in pair.fits}
    choice_box(
        DRAFT_MODEL, "Draft",
        {short: _draft_words(fit) for short, fit in {**fits, _NO_DRAFT: None}.items()},
        pair.draft.model.short if pair.draft else _NO_DRAFT,
        lambda short: _take_draft(short, on_change),
    )  # fmt: skip
    if pair.draft is not None:
        facts = pair.draft.model.facts
        size = COUNT.shown(facts.parameters), facts.quantization
        name, origin = _long_name(pair.draft.model), pair.draft.model.origin
        st.caption(as_text(_joined(*name, *size, *_fit_words(pair.draft), origin)))
    elif not fits:
        st.caption("No smaller model on this machine has the target's tokenizer.")


def _long_name(model: LocalModel) -> tuple[str, ...]:
    """Return the model's name in a tuple if it is too long for the closed list, else ()."""
    return (model.short,) if len(model.short) > _NAME_IN_LIST else ()


def _target_words(model: LocalModel) -> str:
    facts = model.facts
    chat = ("chat",) if facts.chat else ()
    return _joined(
        model.short, COUNT.shown(facts.parameters), facts.quantization, *chat, model.origin
    )


def _facts_words(model: LocalModel, itemsize: int | None) -> str:
    facts = model.facts
    context = (f"context {facts.context:,}",) if facts.context else ()
    marks = [word for word, holds in (("chat", facts.chat), (facts.head, facts.head)) if holds]
    size = size_in_memory(facts.file_bytes, facts.memory(itemsize))
    return _joined(
        COUNT.shown(facts.parameters), facts.quantization, size, *context, *marks, model.origin
    )


def _draft_words(fit: Fit | None) -> str:
    return "None: prompt lookup" if fit is None else _joined(fit.model.short, *_fit_words(fit))


def _fit_words(fit: Fit) -> Iterator[str]:
    yield fit.model.facts.head if fit.model.facts.is_head else _share_words(fit)
    yield f"target {times(fit.ratio)} as large"
    if fit.alpha is not None:
        yield f"measured α {PROBABILITY.shown(fit.alpha)}"
    if fit.fits is False:
        yield "does not fit in memory"


def _share_words(fit: Fit) -> str:
    if fit.same_tokenizer:
        return "same tokenizer"
    if fit.share is None:
        return "tokenizer not compared"
    return f"{WHOLE_PERCENT.shown(fit.share)} shared"


def _joined(*parts: str) -> str:
    return " · ".join(parts)


def _show_activity(models: MachineModels, pair: MachinePair | None) -> None:
    """Show what the background thread is doing; redraw the page when the thread has finished.

    The thread may finish while the script draws the page. The parts drawn before then show outdated
    models, so the page is redrawn in this case, too.
    """
    target = pair.target if pair is not None else None

    def look() -> Activity:
        return models.activity(target)

    first: Activity = st.session_state.pop(_SEEN)
    redraw_while_busy(first or look(), look, _activity_name, _show_activity_line, seconds=_TICK)


def _activity_name(activity: Activity) -> str:
    if activity.searching:
        return "searching"
    return "comparing" if activity else ""


def _show_activity_line(activity: Activity) -> None:
    if activity.searching:
        st.caption("Searching this machine for models…")
    elif activity:
        st.caption(f"Comparing tokenizers: {activity.tokenizers_left} left.")


def _show_places(models: MachineModels) -> None:
    """Draw the button *Search again*, the user's folders, and the models that cannot be used."""
    with st.container(horizontal=True, key="machine_places"):
        st.button("Search again", key="search_models", type="tertiary", on_click=models.search)
        with st.popover("Folders", type="tertiary"):
            _show_folders()
        if skipped := models.found.skipped:
            with st.popover(f"{len(skipped):,} not usable", type="tertiary"):
                _show_skipped(skipped)
    if refused := st.session_state.pop(_REFUSED, None):
        show_error(refused)


def _show_folders() -> None:
    st.text_input(
        "Add a folder with models", key=_FOLDER, on_change=_add_folder,
        help="Searches the folder and its subfolders, now and in later sessions.",
    )  # fmt: skip
    for number, folder in enumerate(added_folders()):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(as_text(folder))
            st.button(
                "Forget", key=f"forget_folder_{number}", type="tertiary", on_click=_forget_folder,
                args=(folder,),
            )  # fmt: skip


def _show_skipped(skipped: tuple[Skipped, ...]) -> None:
    for each in skipped[:_MOST_SHOWN]:
        st.caption(f"**{as_text(each.name)}**, {as_text(each.origin)}: {as_text(each.reason)}")
    if len(skipped) > _MOST_SHOWN:
        st.caption(
            f"{len(skipped) - _MOST_SHOWN:,} more. List all: `python -m specviz models --skipped`"
        )


def _add_folder() -> None:
    folder = st.session_state[_FOLDER].strip()
    st.session_state[_FOLDER] = ""
    if not (folder and lists_models()):
        return
    try:
        add_folders([folder])
    except ConfigError as error:
        st.session_state[_REFUSED] = error
    else:
        the_machine_models().search()


def _forget_folder(folder: Path) -> None:
    forget_folder(folder)
    the_machine_models().search()


# The chosen target and draft. Until the user chooses a draft, the target's default draft is used.


def _choice(box: str) -> str:
    """Return the short name of the chosen model, from the link or else the session state."""
    return st.query_params.get(box) or _memory().get(box, "")


def _choose(box: str, short: str | None) -> None:
    st.query_params.pop(box, None)
    _memory().pop(box, None)
    if short:
        st.query_params[box] = _memory()[box] = short


def _take_target(short: str | None, on_change: Callable[[], object]) -> None:
    _choose(TARGET_MODEL, short)
    _choose(DRAFT_MODEL, None)
    on_change()


def _take_draft(short: str | None, on_change: Callable[[], object]) -> None:
    _choose(DRAFT_MODEL, short)
    on_change()


def _link(pair: MachinePair | None) -> None:
    """Put the chosen models into the link and into the session state."""
    names = {box: _choice(box) for box in MACHINE_BOXES}
    for box, name in names.items():
        if pair is not None and name:
            st.query_params[box] = _memory()[box] = name


def _memory() -> dict[str, str]:
    return st.session_state.setdefault(_CHOSEN, {})

"""The models on this machine, which a background thread finds once for all tabs.

A search opens only small files and the headers of weight files. It starts when a page first shows
the list, and again on request. A dashboard that others can reach never searches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread

import psutil
import streamlit as st

from specviz.errors import ConfigError
from specviz.local_models.added_folders import added_folders
from specviz.local_models.finding import Found, find_models
from specviz.local_models.fitting import Fit, compare_tokenizers, drafts_for
from specviz.local_models.headers import Headers
from specviz.local_models.local_model import LocalModel
from specviz.local_models.naming import embedded_head, place_of
from specviz.record.numbers import SIZE
from specviz.record.pairs import PairSpec
from specviz.store import Library, Viewpoint
from specviz.store.load_times import ExpectedLoad, expected_load
from specviz.store.measured_alphas import measured_alphas
from specviz.ui.access import reachable_by_others
from specviz.ui.session.body_rooms import known_room
from specviz.ui.session.page_library import the_library
from specviz.values import Value

_PLACES = "places of models"
_NOTHING = Found(models=(), skipped=())
ITEMSIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SAME_SIZE = 0.1  # a smaller relative difference may be the file's header
_ALPHAS_SECONDS = 60  # the α of earlier runs are read again after this time


def itemsize_of(dtype: str, device: str) -> int | None:
    """Return the number of bytes that a weight needs in memory; None if it is not known.

    With the dtype "auto", the result is None for an unknown device. It is also None for a CPU,
    which may keep the weights in the file's dtype.
    """
    if dtype in ITEMSIZES or device == "cpu":
        return ITEMSIZES.get(dtype)
    room = known_room(PairSpec())  # of the device that "auto" means
    itemsize = room.itemsize if room is not None else None
    return None if itemsize == ITEMSIZES["float32"] else itemsize


def size_in_memory(file_bytes: int, memory: int) -> str:
    """Format a weight file's size. If the weights' size in memory clearly differs, add it, too."""
    file = SIZE.shown(file_bytes)
    differs = abs(memory / file_bytes - 1) > _SAME_SIZE
    return f"{file}, {SIZE.shown(memory)} in memory" if differs else file


class Activity(Value):
    """What the background thread is doing: searching for models, or comparing tokenizers."""

    searching: bool = False
    tokenizers_left: int = 0

    def __bool__(self) -> bool:
        return self.searching or self.tokenizers_left > 0


@dataclass(slots=True, eq=False)
class MachineModels:
    """The models found so far, and the comparisons of their tokenizers."""

    found: Found = _NOTHING
    _headers: Headers = field(default_factory=Headers)
    _searched: bool = False
    _searching: bool = False
    # Tokenizers left to compare, by target.
    _left: dict[str, int] = field(default_factory=dict[str, int])
    _reading: Lock = field(default_factory=Lock)  # one thread reads files at a time

    def search_once(self) -> None:
        """Start a search, unless there was one before."""
        if not self._searched:
            self.search()

    def search(self) -> None:
        """Start a search. The models of the previous search remain until the new search ends."""
        if not self._searching:
            self._searched = self._searching = True
            self._start(self._search)

    def compare(self, target: LocalModel) -> None:
        """Start comparing the target's tokenizer with the other models' tokenizers.

        A second call for a target does nothing until the models have been searched for again.
        """
        if target.place not in self._left and not self._searching:
            self._left[target.place] = len(self.found.models)
            self._start(lambda: self._compare(target))

    def activity(self, target: LocalModel | None = None) -> Activity:
        left = self._left.get(target.place, 0) if target is not None else 0
        return Activity(searching=self._searching, tokenizers_left=left)

    def at(self, place: str | None) -> LocalModel | None:
        """Return the found model with this path or id; None if there is none."""
        return next((each for each in self.found.models if each.place == place), None)

    def named(self, name: str) -> LocalModel | None:
        """Return the found model with this name or path; None if no or several models have it."""
        with contextlib.suppress(ConfigError):
            return self.found.named(name)
        return None

    def drafts_for(self, target: LocalModel, options: PairSpec) -> tuple[Fit, ...]:
        """Return the drafts for a target, best first.

        The ranking uses the tokenizer comparisons and the measured α that are available so far.

        Args:
            options: The dtype and the weight types with which a pair would be loaded. Its models
                are ignored.
        """
        room = known_room(PairSpec())  # the limits of the device that loads models
        free = room.memory_free if room is not None else psutil.virtual_memory().available
        itemsize = itemsize_of(options.dtype, "auto")
        return drafts_for(
            target, self.found.models, self._headers, itemsize=itemsize, memory_free=free,
            alphas=_alphas(options.chosen_weights, the_library().viewpoint),
        )  # fmt: skip

    def expected_load(self, spec: PairSpec) -> ExpectedLoad | None:
        """Return how long loading the pair is expected to take, from the times of earlier loads."""
        return expected_load(spec, self._headers)

    def _start(self, work: Callable[[], None]) -> None:
        Thread(target=work, daemon=True).start()

    def _search(self) -> None:
        try:
            with self._reading:
                self.found = find_models(added_folders(), self._headers)
                self._left.clear()
        finally:
            self._searching = False

    def _compare(self, target: LocalModel) -> None:
        try:
            with self._reading:
                for left in compare_tokenizers(target, self.found.models, self._headers):
                    self._left[target.place] = left
        finally:
            self._left[target.place] = 0


@st.cache_resource(show_spinner=False)
def the_machine_models() -> MachineModels:
    return MachineModels()


def lists_models() -> bool:
    """Return whether pages list this machine's models: False if others can reach the dashboard."""
    return not reachable_by_others()


def found_model(place: str | None) -> LocalModel | None:
    """Return the model with this path or id if an earlier search found it. Start no search."""
    return the_machine_models().at(place) if lists_models() else None


def expected_load_of(spec: PairSpec) -> ExpectedLoad | None:
    """Return how long loading the pair is expected to take; None if nothing is known.

    Only headers are read. On a dashboard that others can reach, the result is None for pairs that
    are not embedded.
    """
    return the_machine_models().expected_load(spec) if spec.embedded or lists_models() else None


def found_place(name: str) -> str:
    """Return the path or id of this machine's draft with this name, or the name if there is none.

    If no model of the latest search has this name, the function searches again. The session reuses
    the result until the number of found models changes.

    Raises:
        ConfigError: Several models have this name.
    """
    if head := embedded_head(name):
        return head
    if not lists_models():
        return name
    models = the_machine_models()
    if (model := models.named(name)) is not None:
        return model.place
    known: dict[tuple[str, int], str] = st.session_state.setdefault(_PLACES, {})
    searched = name, len(models.found.models)
    if searched not in known:
        known[searched] = place_of(name)
    return known[searched]


@st.cache_resource(show_spinner=False, ttl=_ALPHAS_SECONDS)
def _alphas(weights: str, viewpoint: Viewpoint) -> dict[tuple[str, str], float]:
    return measured_alphas(weights, Library(viewpoint=viewpoint))

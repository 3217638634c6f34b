"""The recorded runs that come with specviz: which there are, and how each was made.

``python -m tests.recordings runs`` makes them with the program's own command ``run``.
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import streamlit as st

from specviz import ASSETS
from specviz.figures.metrics import metrics
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import Trace
from specviz.store.traces import trace_from_json
from specviz.ui.session.history import RECORDED, ShownRun, recorded_run
from specviz.values import Value

FOLDER = ASSETS / "recorded_runs"
SIZE = "90M"  # of the simulated target, unless a recording says otherwise
_KEPT = 6  # traces in memory; each takes several megabytes


class Recording(Value):
    """A recorded run: its name in links, the title of its prompt, and its options.

    ``words`` names what is special about the run. ``options`` are options of the command ``run``;
    they are empty for the run of the first screen, which needs only a simulated size.
    """

    name: str
    prompt: str
    words: str
    options: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.json.gz"

    @property
    def preset(self) -> Preset:
        return next(each for each in read_presets() if each.title == self.prompt)

    @property
    def kind(self) -> str:
        return self.preset.kind


def _made(name: str, prompt: str, words: str, options: str, size: str = SIZE) -> Recording:
    body = ("--target-body", size) if size else ()
    return Recording(name=name, prompt=prompt, words=words, options=(*options.split(), *body))


_STORY, _REPEATED, _CODE = "A girl in the park", "The rhyme", "Python"
RECORDINGS = (
    Recording(name=RECORDED, prompt=_STORY, words="γ 5, temperature 0.7"),
    _made("gamma-1", _STORY, "γ 1, temperature 0.7", "--gamma 1 --temperature 0.7"),
    _made("gamma-3", _STORY, "γ 3, temperature 0.7", "--gamma 3 --temperature 0.7"),
    _made("gamma-8", _STORY, "γ 8, temperature 0.7", "--gamma 8 --temperature 0.7"),
    _made("greedy", _STORY, "γ 5, greedy", "--gamma 5 --temperature 0"),
    _made("greedy-12", _STORY, "γ 12, greedy", "--gamma 12 --temperature 0"),
    _made("warm", _STORY, "γ 5, temperature 1", "--gamma 5 --temperature 1"),
    _made("hot", _STORY, "γ 5, temperature 1.5", "--gamma 5 --temperature 1.5"),
    _made("small-target", _STORY, "γ 5, target at its own size",
          "--gamma 5 --temperature 0.7", size=""),
    _made("slower", _STORY, "γ 16, temperature 1.5, target at its own size",
          "--gamma 16 --temperature 1.5", size=""),
    _made("block", _STORY, "block verification, temperature 1",
          "--gamma 5 --temperature 1 --rule block"),
    _made("tree", _STORY, "a tree of candidates, temperature 1",
          "--temperature 1 --branching 3x2x1x1"),
    _made("lossy", _STORY, "over-acceptance ε 0.1, temperature 1",
          "--gamma 5 --temperature 1 --rule over-accept --epsilon 0.1"),
    _made("copying", _REPEATED, "γ 5, temperature 0.7", "--gamma 5 --temperature 0.7"),
    _made("lookup", _REPEATED, "prompt lookup, greedy",
          "--drafter prompt-lookup --gamma 5 --temperature 0"),
    _made("code", _CODE, "γ 5, temperature 0.7: code, on which the pair was not trained",
          "--gamma 5 --temperature 0.7"),
)  # fmt: skip
GAME = "warm"  # whose rounds the guessing game asks about


def available() -> tuple[Recording, ...]:
    """Return the recordings whose file exists, and always the first screen's run."""
    return _available()


@cache
def _available() -> tuple[Recording, ...]:
    return tuple(each for each in RECORDINGS if each.name == RECORDED or each.file.is_file())


def recording_named(name: str | None) -> Recording | None:
    return next((each for each in available() if each.name == name), None)


def opened_recording(recording: Recording) -> ShownRun:
    """Return the recorded run as the player shows it."""
    return recorded_run() if recording.name == RECORDED else _opened(recording.name)


@st.cache_resource(show_spinner=False, max_entries=_KEPT)
def _opened(name: str) -> ShownRun:
    trace = _trace_of(FOLDER / f"{name}.json.gz")
    return ShownRun(id=name, trace=trace, figures=metrics(trace))


def _trace_of(file: Path) -> Trace:
    return trace_from_json(gzip.decompress(file.read_bytes()).decode(), source=file.name)


def command_of(recording: Recording) -> str:
    """Return the command that makes such a run. On another machine, the times differ."""
    text = recording.preset.text.replace('"', '\\"').replace("\n", "\\n")
    options = " ".join(recording.options or ("--target-body", SIZE))
    return f'specviz run "{text}" {options}'

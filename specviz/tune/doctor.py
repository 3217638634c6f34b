"""The head doctor: find wrong settings in the files of a drafting head (such as EAGLE-3).

A head with wrong settings loads and runs, but few of its candidates are accepted. For example, its
layer ids are off by one, or a norm is in the wrong place.

The target writes texts. Along these texts, the doctor computes the acceptance probabilities of the
head's candidates: with the settings in the head's files, and with all other settings of
``engine/heads/readings.py``. Each round has up to 4 candidates. An error in how the head continues
from its own state shows only from the second candidate on.

All settings are tried at some positions of the texts. The best settings are then compared at all
positions. A setting is better than the setting in the files if the interval of the difference in
accepted candidates is above 0. The interval is paired by position and corrected for the number of
settings tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.errors import ConfigError
from specviz.record.numbers import TOKENS
from specviz.record.run_config import RunConfig
from specviz.theory.student import t_quantile
from specviz.tune.doctor_warnings import head_warnings
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair
    from specviz.engine.heads.following import ReadText
    from specviz.engine.heads.head import Head
    from specviz.engine.heads.readings import Reading
    from specviz.record.trace import ModelInfo

LEVEL = 0.05  # probability that a healthy head is called faulty
DEPTH = 4  # candidates per round
OWN = "the files' own settings"
_LEAST, _MOST = 16, 4096  # tokens of all texts
_SCREENED = 48  # text positions at which all settings are tried
_FINALISTS = 5
_BLOCK = 8  # neighbouring text positions averaged to one value, because they are correlated
_STRIDE = 2  # tokens from one text position to the next


class ReadingResult(Value):
    """How well a head drafts with one choice of settings."""

    changes: tuple[tuple[str, Any], ...]  # settings that differ from the files'
    by_position: tuple[float, ...]  # mean acceptance probability of candidate 1, 2, …
    accepted: float  # expected accepted candidates per round
    gain: float = 0.0  # more accepted per round than with the files' settings
    low: float = 0.0  # corrected interval of the gain
    high: float = 0.0
    places: int = 0

    @property
    def better(self) -> bool:
        return self.low > 0

    @property
    def own(self) -> bool:
        return not self.changes

    @property
    def words(self) -> str:
        """The settings that differ from those in the head's files, as text."""
        return setting_words(dict(self.changes))


def setting_words(changes: Mapping[str, Any]) -> str:
    """Return the settings that differ from those in the head's files, as text."""
    return ", ".join(_short(name, value) for name, value in changes.items()) or OWN


class DoctorReport(Value):
    """How well the head drafts with the settings in its files, and with other settings.

    ``results`` begins with the settings in the files. The other settings follow, best first.
    """

    head: str
    target: str
    kind: str
    settings: tuple[tuple[str, Any], ...]  # as in the head's files
    tried: int
    tokens: int
    results: tuple[ReadingResult, ...]
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> ReadingResult:
        """The best result with settings that are better than those in the files.

        If no settings are better, this is the result with the files' settings.
        """
        better = [each for each in self.results if each.better]
        return max(better, key=lambda each: each.accepted, default=self.results[0])

    @property
    def healthy(self) -> bool:
        return self.best.own


class Examining(Value):
    """The current step of an examination, and how many of the planned trials are done."""

    doing: str
    done: int
    planned: int


class Doctor(Value):
    """An examination of a head along texts that the target writes for the preset prompts."""

    config: RunConfig
    tokens: int = 1024

    def __post_init__(self) -> None:
        if not _LEAST <= self.tokens <= _MOST:
            raise ConfigError(
                f"tokens is {self.tokens}.",
                remedy=f"Give a whole number from {_LEAST} to {_MOST:,}.",
            )

    @property
    def label(self) -> str:
        return "examining the head"

    def find(self, pair: Pair) -> Iterator[DoctorReport | Examining]:
        """Yield progress (``Examining``), then the report."""
        from specviz.engine.decoding.sampling import Sampler
        from specviz.engine.heads.readings import readings

        head, info = head_of(pair)
        found = readings(head, head.target.layers)
        places = sorted({place for each in found for place in each.head.states.places})
        sampler = Sampler(self.config)
        planned = len(found) + min(len(found), 1 + _FINALISTS)
        texts = list[_Text]()
        for number, (prompt, ids) in enumerate(self._texts(pair), 1):
            yield Examining(doing=f"the target writes text {number}", done=0, planned=planned)
            texts.append(_Text.read(pair, prompt, ids, sampler, places))
        screened = _first_places(texts, _SCREENED)
        scores = list[np.ndarray]()
        for number, each in enumerate(found, 1):
            yield Examining(doing="trying all settings", done=number, planned=planned)
            scores.append(_along(each, texts, sampler, screened))
        order = sorted(range(1, len(found)), key=lambda i: -_accepted(scores[i]).mean())
        finalists = [0, *order[:_FINALISTS]]
        everywhere = _first_places(texts, self.tokens)
        final = dict[int, np.ndarray]()
        for number, index in enumerate(finalists, 1):
            done = planned - len(finalists) + number
            yield Examining(doing="comparing the best", done=done, planned=planned)
            final[index] = _along(found[index], texts, sampler, everywhere)
        results = tuple(_result(found[i], final[i], final[0], len(found)) for i in finalists)
        yield DoctorReport(
            head=info.name,
            target=pair.info.target.name,
            kind=head.kind,
            settings=_as_pairs(_settings_of(head.settings)),
            tried=len(found),
            tokens=sum(each.size for each in texts),
            results=(results[0], *sorted(results[1:], key=lambda each: -each.accepted)),
            warnings=head_warnings(pair, chat=self.config.chat),
        )

    def _texts(self, pair: Pair) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        from specviz.engine import decode_plainly
        from specviz.tune.short_runs import contexts

        length = 64
        settings = replace(self.config, max_new_tokens=length, record=False, ignore_eos=True)
        left = self.tokens
        for prompt in contexts(pair, settings):
            if left <= 0:
                return
            text = tuple(decode_plainly(pair, prompt, settings))
            left -= len(text)
            yield prompt, text


def head_of(pair: Pair) -> tuple[Head, ModelInfo]:
    """Return the pair's head and its description; raises ConfigError without a head."""
    if pair.head is None or pair.info.draft is None:
        raise ConfigError(
            "The pair has no head to examine.",
            remedy="Load the target with a head as its draft.",
        )
    return pair.head, pair.info.draft


class _Text(Value, eq=False):
    text: ReadText
    starts: tuple[int, ...]
    size: int

    @staticmethod
    def read(
        pair: Pair, prompt: Sequence[int], ids: Sequence[int], sampler: Any, places: Sequence[int]
    ) -> _Text:
        from specviz.engine.heads.following import ReadText

        first, last = len(prompt), len(prompt) + len(ids) - DEPTH
        return _Text(
            text=ReadText(pair, prompt, ids, sampler, places),
            starts=tuple(range(max(1, first), last, _STRIDE)),
            size=len(ids),
        )


def _first_places(texts: Sequence[_Text], count: int) -> list[tuple[int, ...]]:
    """Return the earliest positions of each text, about ``count`` positions in total."""
    each = -(-count // max(1, len(texts)))
    return [text.starts[:each] for text in texts]


def _along(
    reading: Reading, texts: Sequence[_Text], sampler: Any, starts: Sequence[Sequence[int]]
) -> np.ndarray:
    """Return the acceptance probabilities of the head's candidates `[text position, candidate]`."""
    from specviz.engine.heads.following import acceptance_along

    return np.concatenate(
        [
            acceptance_along(reading.head, text.text, sampler, DEPTH, some)
            for text, some in zip(texts, starts, strict=True)
            if some
        ]
    )


def _accepted(scores: np.ndarray) -> np.ndarray:
    """Return an expected number of accepted candidates for each text position.

    It is the number for a round that starts at this position.
    """
    return np.cumprod(scores, axis=1).sum(axis=1)


def _result(reading: Reading, scores: np.ndarray, own: np.ndarray, tried: int) -> ReadingResult:
    gains = _accepted(scores) - _accepted(own)
    low, high = _interval(gains, LEVEL / max(1, tried - 1)) if reading.changes else (0.0, 0.0)
    return ReadingResult(
        changes=_as_pairs(reading.changes),
        by_position=tuple(scores.mean(axis=0).tolist()),
        accepted=float(_accepted(scores).mean()),
        gain=float(gains.mean()),
        low=low,
        high=high,
        places=len(scores),
    )


def _interval(gains: np.ndarray, level: float) -> tuple[float, float]:
    """Return Student's interval of the mean gain.

    Neighbouring positions are not independent. So the interval uses means over groups of
    neighbouring positions.
    """
    count = max(2, len(gains) // _BLOCK)
    blocks = [float(block.mean()) for block in np.array_split(gains, count)]
    half = t_quantile(1 - level / 2, count - 1) * stdev(blocks) / count**0.5
    return fmean(blocks) - half, fmean(blocks) + half


def _settings_of(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def _as_pairs(changes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(changes.items())


def verdict(report: DoctorReport) -> str:
    """Return a sentence on whether the head's files have wrong settings."""
    own, best = report.results[0], report.best
    accepted = f"{TOKENS.shown(own.accepted)} of {len(own.by_position)} candidates are accepted"
    if report.healthy:
        return f"Nothing to change: {accepted}, and no other setting is better."
    return (
        f"The head's files have wrong settings: with them, {accepted}. With the best settings "
        f"found, {TOKENS.shown(best.accepted)} are accepted: {TOKENS.between(best.low, best.high)} "
        "more."
    )


def advice(report: DoctorReport) -> tuple[str, ...]:
    """Return what to change, one sentence per setting; empty for a healthy head."""
    return tuple(_advice(name, value, report) for name, value in report.best.changes)


def _advice(name: str, value: Any, report: DoctorReport) -> str:
    asked = dict(report.settings)[name]
    if name == "places":
        if sorted(value) == sorted(asked):
            return f"The layers are joined in the order {_listed(value)}, not {_listed(asked)}."
        return f"The head reads the inputs of layers {_listed(value)}, not {_listed(asked)}."
    return SENTENCES[name][bool(value)]


def _short(name: str, value: Any) -> str:
    return f"layers {_listed(value)}" if name == "places" else _SHORT[name][bool(value)]


def _listed(places: Sequence[int]) -> str:
    return ", ".join(map(str, places))


SENTENCES: Mapping[str, tuple[str, str]] = {  # for False and True
    "norm_before_residual": (
        "The residual starts at the state before its norm: norm_before_residual is false.",
        "The residual starts at the normed state: norm_before_residual is true.",
    ),
    "recycle_normed": (
        "The head continues from its state before the final norm: norm_output is false.",
        "The head continues from its state after the final norm: norm_output is true.",
    ),
    "recycle_after_norm": (
        "The MTP layer continues from its state before the final norm.",
        "The MTP layer continues from its state after the final norm.",
    ),
    "embedding_first": (
        "The head's input is joined as [state, embedding].",
        "The head's input is joined as [embedding, state].",
    ),
    "shift_ids": (
        "Each input row joins a state and the token of that state: the ids are not shifted.",
        "Each input row joins a state and the token after it: the ids are shifted by one.",
    ),
    "zero_first_embedding": (
        "The first row uses the embedding of its token.",
        "The first row uses zeros instead of the embedding of its token.",
    ),
    "first_head": (
        "The first head proposes the first candidate.",
        "The second head proposes the first candidate: head 0 repeats the target's own token.",
    ),
    "sample_from_anchor": (
        "The row of the newest token proposes nothing: sample_from_anchor is false.",
        "The row of the newest token proposes the first candidate: sample_from_anchor is true.",
    ),
    "causal_windows": (
        "Rows of sliding-window layers see the whole block: sliding_window_non_causal is true.",
        "Rows of sliding-window layers see only earlier rows: sliding_window_non_causal is false.",
    ),
}
_SHORT: Mapping[str, tuple[str, str]] = {  # for False and True
    "norm_before_residual": ("residual before its norm", "residual after its norm"),
    "recycle_normed": ("continuing before the norm", "continuing after the norm"),
    "recycle_after_norm": ("continuing before the norm", "continuing after the norm"),
    "embedding_first": ("state first", "embedding first"),
    "shift_ids": ("ids not shifted", "ids shifted"),
    "zero_first_embedding": ("first embedding used", "first embedding zero"),
    "first_head": ("from head 0", "from head 1"),
    "sample_from_anchor": ("no candidate at the anchor", "a candidate at the anchor"),
    "causal_windows": ("windows in both directions", "causal windows"),
}

"""The target's hidden states along the texts that it wrote. A draft learns from these states.

The states are computed once and stored. If the states do not fit on the disk, each training step
computes the states that it needs.

The values stored for each token are the states that a head uses, the state after the final norm,
the log-sum-exp of the logits, and the likeliest next token. The target's probabilities of any
tokens follow from the final state and the log-sum-exp, so no logits are stored.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from specviz.engine.model.step_capabilities import AFTER_NORM
from specviz.errors import TrainingError
from specviz.training.drafts.batched_target import BatchedTarget
from specviz.training.drafts.estimate import state_bytes
from specviz.training.drafts.numbered_files import NumberedFiles
from specviz.training.drafts.progress import Computing
from specviz.training.drafts.written_texts import Text, WrittenTexts
from specviz.values import Value

_TOGETHER = 8  # texts in one pass
_ROWS = 512  # tokens whose logits are computed at once
_HALF_LIMIT = 65504.0
_VALUES = ("states", "final", "log_sum", "best")  # of each token, as stored
_SPARE_BYTES = 1 << 30  # left free on the disk, for checkpoints and for others


class Window(Value, eq=False):
    """A batch. Each row is a part of a text; shorter parts are padded at their ends.

    ``written[text, i]``: whether the target wrote the token *after* token i as an answer.
    """

    ids: torch.Tensor  # [text, token]
    states: torch.Tensor  # [text, token, width of all places]
    final: torch.Tensor  # [text, token, width]
    log_sum: torch.Tensor  # [text, token]
    best: torch.Tensor  # [text, token], the target's likeliest next token
    written: torch.Tensor  # [text, token]


def store_states(
    target: BatchedTarget, texts: WrittenTexts, places: Sequence[int], folder: Path
) -> Iterator[Computing]:
    """Compute and write the missing files of hidden states; yield the progress."""
    files, done = NumberedFiles(folder, "hidden"), 0
    for number, group in groupby(texts.texts, key=lambda each: each.file):
        batch = list(group)
        if not files.has(number):
            size = batch[-1].begin + len(batch[-1].ids)
            made = _empty(size, target, places)
            for first in range(0, len(batch), _TOGETHER):
                _fill(made, batch[first : first + _TOGETHER], target, places)
                yield Computing(texts=done + first, planned=len(texts.texts))
            files.write(number, made)
        done += len(batch)
        yield Computing(texts=done, planned=len(texts.texts))


def fits(texts: WrittenTexts, target: BatchedTarget, places: Sequence[int], folder: Path) -> bool:
    """Return whether the missing files of hidden states fit on the disk."""
    files = NumberedFiles(folder, "hidden")
    tokens = sum(len(each.ids) for each in texts.texts if not files.has(each.file))
    needed = tokens * state_bytes(_width(target), len(places))
    return needed + _SPARE_BYTES <= shutil.disk_usage(folder).free


class Windows(ABC):
    """Draws batches of texts with hidden states. A subclass loads or computes the states."""

    def __init__(self, texts: Sequence[Text], length: int) -> None:
        useful = [each for each in texts if len(each.ids) > 2 and each.written.any()]
        if not useful:
            raise TrainingError(
                "The target wrote no text to learn from.",
                remedy="Collect more or longer texts.",
            )
        self._texts, self._length = useful, length
        sizes = np.array([int(each.written.sum()) for each in useful], np.float64)
        self._shares = sizes / sizes.sum()

    def draw(self, count: int, seed: Sequence[int]) -> Window:
        """Return a part of each of ``count`` random texts; ``seed`` determines the choice.

        The probability of a text is proportional to how many of its tokens the target wrote.
        """
        random = np.random.default_rng(list(seed))
        chosen = random.choice(len(self._texts), count, p=self._shares)
        return self._window([(self._texts[i], self._begin(self._texts[i], random)) for i in chosen])

    def all(self, count: int) -> Iterator[Window]:
        """Yield the beginnings of all texts, ``count`` at a time."""
        for first in range(0, len(self._texts), count):
            yield self._window([(each, 0) for each in self._texts[first : first + count]])

    def _begin(self, text: Text, random: np.random.Generator) -> int:
        """Return where to begin a part so that the part contains tokens that the target wrote."""
        spare = len(text.ids) - self._length
        if spare <= 0:
            return 0
        first = int(text.written.nonzero()[0])
        return int(random.integers(0, spare + 1)) if first < self._length else min(spare, first)

    def _window(self, places: Sequence[tuple[Text, int]]) -> Window:
        length = max(min(self._length, len(text.ids) - begin) for text, begin in places)
        parts = [
            _Part(text=text, begin=begin, end=min(len(text.ids), begin + length))
            for text, begin in places
        ]
        rows = [
            tuple(_padded(each, length) for each in _columns(part, values))
            for part, values in zip(parts, self._values(parts), strict=True)
        ]
        names = ("ids", "states", "final", "log_sum", "best", "written")
        columns = [torch.stack(each) for each in zip(*rows, strict=True)]
        return Window(**dict(zip(names, columns, strict=True)))

    @abstractmethod
    def _values(self, parts: Sequence[_Part]) -> Iterator[Mapping[str, torch.Tensor]]:
        """Yield, for each part, its rows of every tensor named in ``_VALUES``."""


class StoredStates(Windows):
    """Reads the states from the files that ``store_states`` writes."""

    def __init__(self, texts: Sequence[Text], length: int, folder: Path) -> None:
        super().__init__(texts, length)
        self._files = NumberedFiles(folder, "hidden")

    def _values(self, parts: Sequence[_Part]) -> Iterator[Mapping[str, torch.Tensor]]:
        for each in parts:
            text = each.text
            file = self._files.open(text.file)  # if kept open, its pages would fill the memory
            begin, end = text.begin + each.begin, text.begin + each.end
            yield {name: file.rows(name, begin, end) for name in _VALUES}


class ComputedStates(Windows):
    """Computes the states of each window as it is drawn."""

    def __init__(
        self, texts: Sequence[Text], length: int, target: BatchedTarget, places: Sequence[int]
    ) -> None:
        super().__init__(texts, length)
        self._target, self._places = target, places

    def _values(self, parts: Sequence[_Part]) -> Iterator[Mapping[str, torch.Tensor]]:
        texts, size = list[Text](), 0
        for each in parts:  # a state depends on all tokens before it
            ids = each.text.ids[: each.end]
            texts.append(replace(each.text, ids=ids, begin=size))
            size += len(ids)
        made = _empty(size, self._target, self._places)
        _fill(made, texts, self._target, self._places)
        for each, text in zip(parts, texts, strict=True):
            rows = slice(text.begin + each.begin, text.begin + each.end)
            yield {name: made[name][rows] for name in _VALUES}


class _Part(Value, eq=False):
    """Tokens ``begin`` to ``end`` of a text."""

    text: Text
    begin: int
    end: int


def _columns(part: _Part, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    begin, end = part.begin, part.end
    after = torch.zeros(end - begin, dtype=torch.bool)
    known = part.text.written[begin + 1 : end + 1]
    after[: len(known)] = known
    ids = part.text.ids[begin:end].long()
    states, final, log_sum, best = (values[name] for name in _VALUES)
    return ids, states.float(), final.float(), log_sum, best.long(), after


def _empty(size: int, target: BatchedTarget, places: Sequence[int]) -> dict[str, torch.Tensor]:
    width = _width(target)
    return {
        "states": torch.zeros(size, width * len(places), dtype=torch.float16),
        "final": torch.zeros(size, width, dtype=torch.float16),
        "log_sum": torch.zeros(size),
        "best": torch.zeros(size, dtype=torch.int32),
    }


def _width(target: BatchedTarget) -> int:
    return int(target.weights.norm.weight.shape[0])


@torch.inference_mode()
def _fill(
    made: dict[str, torch.Tensor],
    texts: Sequence[Text],
    target: BatchedTarget,
    places: Sequence[int],
) -> None:
    ids = torch.nn.utils.rnn.pad_sequence([each.ids.long() for each in texts], batch_first=True)
    states = target.states(ids.to(target.device), (*places, AFTER_NORM)).cpu()
    for row, text in enumerate(texts):
        own = states[row, : len(text.ids)]
        if float(own.abs().max()) > _HALF_LIMIT:
            raise TrainingError(
                "The target's hidden states are too large for half precision.",
                remedy="Choose another target.",
            )
        place = slice(text.begin, text.begin + len(text.ids))
        made["states"][place] = own[:, :-1].flatten(1).half()
        made["final"][place] = own[:, -1].half()
        for begin in range(0, len(text.ids), _ROWS):
            logits = target.logits(own[begin : begin + _ROWS, -1].to(target.device))
            rows = slice(text.begin + begin, text.begin + begin + len(logits))
            made["log_sum"][rows] = logits.logsumexp(-1).cpu()
            made["best"][rows] = logits.argmax(-1).int().cpu()


def _padded(values: torch.Tensor, length: int) -> torch.Tensor:
    missing = length - len(values)
    if not missing:
        return values
    return torch.cat([values, values.new_zeros(missing, *values.shape[1:])])

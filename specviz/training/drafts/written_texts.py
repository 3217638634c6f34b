"""The texts that the target writes, stored in a folder with one file for each batch.

The plan and a text's number determine its batch, prompt, temperature and random numbers. So an
interrupted collection resumes with the first missing batch, and the interruption does not change
the texts. The unfinished texts of a batch are saved regularly. A text is held out if the hash of
its first tokens is low. So texts with the same beginning are either all held out or all used for
training.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from specviz.engine import Pair
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.chat_template import render_chat
from specviz.errors import TrainingError
from specviz.record.conversations import Conversation, Message
from specviz.training.drafts.batched_target import BatchedTarget, Writing
from specviz.training.drafts.numbered_files import NumberedFiles
from specviz.training.drafts.plan import TextPlan
from specviz.training.drafts.progress import Collecting
from specviz.training.drafts.tasks import Task, task_of
from specviz.values import Value

HELD_OUT = 0.05  # share of the texts
BATCH = 256  # texts of a file
STATES_OF = 32  # texts of a file of hidden states
KEPT_EVERY = 20.0  # seconds between two copies of the unfinished texts
_OPENING = 8  # tokens by which texts are assigned to a part, beyond those that all texts share
_QUESTION = 96  # tokens
_PLACE = "specviz's place"
_CODE_HEAT = 0.5  # times other passages' temperature; above it, small models write broken code


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    ids: torch.Tensor  # int32
    written: torch.Tensor  # bool: the tokens that the target wrote as answers
    ended: bool
    file: int = 0  # the number of the file with its hidden states
    begin: int = 0  # the place of its first token in that file


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTexts:
    """All texts of a folder, without repetitions."""

    texts: tuple[Text, ...]
    repeated: int

    @property
    def parts(self) -> tuple[list[int], list[int]]:
        """Return the indices of the training texts and the indices of the held-out texts.

        At least one text is held out.
        """
        shared = _shared_beginning(self.texts)
        places = [_place(each.ids[shared:]) for each in self.texts]
        limit = max(HELD_OUT, min(places, default=0.0))
        numbers = range(len(self.texts))
        return [i for i in numbers if places[i] > limit], [i for i in numbers if places[i] <= limit]

    @property
    def tokens(self) -> int:
        return sum(int(each.written.sum()) for each in self.texts)

    @property
    def ended(self) -> float:
        """Return the share of the texts that the target ended with an end token."""
        return sum(each.ended for each in self.texts) / max(1, len(self.texts))

    def repetition(self, length: int = 4) -> float:
        """Return the share of ``length``-token sequences that occurred earlier in the same text."""
        found = [_repeated_runs(each.ids[each.written].tolist(), length) for each in self.texts]
        return sum(each[0] for each in found) / max(1, sum(each[1] for each in found))


def collect(
    pair: Pair, target: BatchedTarget, plan: TextPlan, folder: Path
) -> Iterator[Collecting]:
    """Let the target write the missing batches; yield the progress."""
    files, writer, tokens = NumberedFiles(folder, "texts"), _Writer(pair, target, plan), 0
    unfinished = NumberedFiles(folder, "unfinished")
    for number in range(-(-plan.count // BATCH)):
        if files.has(number):
            continue
        first, last = number * BATCH, min((number + 1) * BATCH, plan.count)
        texts, parts = list[Text](), _KeptParts(unfinished, number)
        for value in writer.write_batch(first, last, parts):
            if isinstance(value, Text):
                texts.append(value)
            else:
                tokens = value
                yield Collecting(texts=first, planned=plan.count, tokens=tokens)
        files.write(number, _arrays(texts))
        unfinished.path(number).unlink(missing_ok=True)
        yield Collecting(texts=last, planned=plan.count, tokens=tokens)


def read_texts(plan: TextPlan, folder: Path) -> WrittenTexts:
    """Return the texts of a folder, without texts that repeat an earlier text."""
    files, kept, repeated = NumberedFiles(folder, "texts"), dict[tuple[int, ...], Text](), 0
    begin = 0
    for number in range(-(-plan.count // BATCH)):
        for text in _texts(files.read(number)):
            key = tuple(text.ids.tolist())
            if key in kept:
                repeated += 1
                continue
            begin = 0 if len(kept) % STATES_OF == 0 else begin
            kept[key] = replace(text, file=len(kept) // STATES_OF, begin=begin)
            begin += len(key)
    return WrittenTexts(tuple(kept.values()), repeated)


class _Writer:
    def __init__(self, pair: Pair, target: BatchedTarget, plan: TextPlan) -> None:
        self._pair, self._target, self._plan = pair, target, plan
        self._longest = min(plan.longest, target.longest)
        self._chat = pair.has_chat
        self._turns = _Turns.of(pair) if self._chat and not plan.prompts else None
        self._written = 0
        self._kept: _KeptParts

    def write_batch(self, first: int, last: int, kept: _KeptParts) -> Iterator[Text | int]:
        """Write a batch: yield the number of tokens so far in this session, and then the texts."""
        self._kept = kept
        growing = [_Growing(number, self._plan) for number in range(first, last)]
        if self._turns is not None:
            yield from self._converse([each for each in growing if not each.has_task], self._turns)
            yield from self._do_tasks([each for each in growing if each.has_task], self._turns)
        elif self._plan.prompts:
            for each in growing:
                prompt = self._plan.prompts[each.number // 2 % len(self._plan.prompts)]
                each.add(encode_prompt(self._pair, prompt, self._chat))
            yield from self._answer(growing, 0)
        else:
            for each in growing:
                each.add([min(self._pair.eos_ids, default=0)])
            begun = [each.next_part(0, 1 + each.number % 12, 1.0) for each in growing]
            yield from self._write(growing, begun)
            yield from self._answer(growing, 1)
        yield from (each.text for each in growing if any(each.written))

    def _converse(self, going: list[_Growing], turns: _Turns) -> Iterator[int]:
        """Let the target write both sides of conversations."""
        for turn in range(self._plan.turns):
            going = [each for each in going if each.turns > turn]
            for each in going:
                each.add(turns.begin if turn == 0 else turns.between, end=turn > 0)
            room = self._longest - _QUESTION - len(turns.answer)
            going = [each for each in going if len(each.ids) < room]
            asked = [each.next_part(2 * turn, _QUESTION, each.question_heat) for each in going]
            yield from self._write(going, asked)
            going = [each for each, part in zip(going, asked, strict=True) if part.ended]
            for each in going:
                each.add(turns.answer, end=True)
            yield from self._answer(going, 2 * turn + 1)
            going = [each for each in going if each.ended]

    def _do_tasks(self, growing: Sequence[_Growing], turns: _Turns) -> Iterator[int]:
        """Let the target answer tasks, most of them about a passage that it writes first."""
        tasks = {each.number: task_of(self._plan.seed, each.number) for each in growing}
        about = {number: each for number, each in tasks.items() if each.has_passage}
        passages = yield from self._write_passages(about, turns)
        for each in growing:
            passage = passages.get(each.number, "")
            if passage or each.number not in about:
                prompt = tasks[each.number].prompt(passage)
                each.add(encode_prompt(self._pair, prompt, self._chat))
        yield from self._answer([each for each in growing if each.ids], 2)

    def _write_passages(
        self, tasks: Mapping[int, Task], turns: _Turns
    ) -> Generator[int, None, dict[int, str]]:
        """Let the target write passages, as answers to questions; return them by text number."""
        passages = [_Growing(number, self._plan) for number in tasks]
        asking = [each for each in passages if tasks[each.number].question is None]
        asking = asking if len(turns.begin) < self._longest else []
        for each in asking:
            each.add(turns.begin)
        asked = [
            each.next_part(0, self._most(each, _QUESTION), each.question_heat) for each in asking
        ]
        yield from self._write(asking, asked)
        for each in passages:
            if (question := tasks[each.number].question) is None:
                each.add(turns.answer, end=True)
            else:
                each.add(encode_prompt(self._pair, question, self._chat))
        passages = [each for each in passages if len(each.ids) < self._longest]
        half, parts = self._longest // 2, list[Writing]()
        for each in passages:
            is_code = tasks[each.number].question is not None
            heat = each.question_heat * (_CODE_HEAT if is_code else 1.0)
            parts.append(each.next_part(1, self._most(each, half), heat))
        yield from self._write(passages, parts)
        decode = self._pair.tokenizer.decode
        return {
            each.number: decode(part.new, skip_special_tokens=True).strip()
            for each, part in zip(passages, parts, strict=True)
        }

    def _most(self, each: _Growing, most: int) -> int:
        return max(0, min(most, self._longest - len(each.ids)))

    def _answer(self, growing: Sequence[_Growing], phase: int) -> Iterator[int]:
        growing = [each for each in growing if len(each.ids) < self._longest]
        parts = [
            each.next_part(phase, self._most(each, self._longest), each.heat) for each in growing
        ]
        yield from self._write(growing, parts, answers=True)

    def _write(
        self, growing: Sequence[_Growing], parts: Sequence[Writing], *, answers: bool = False
    ) -> Iterator[int]:
        before = self._written
        self._kept.add(parts)
        if parts:
            ends, together = self._pair.eos_ids, self._plan.together
            for count in self._target.write(parts, ends, together):
                self._written = before + count
                self._kept.keep_if_due()
                yield self._written
        for each, part in zip(growing, parts, strict=True):
            each.add(part.new, written=answers)
            each.ended = answers and part.ended


@dataclass(slots=True, eq=False)
class _Growing:
    """A text that the target is writing; its number determines its temperature and its kind."""

    number: int
    plan: TextPlan
    ids: list[int] = field(default_factory=list[int])
    written: list[bool] = field(default_factory=list[bool])
    ended: bool = False

    @property
    def heat(self) -> float:
        """Return the temperature of the answers: 0 for texts with an even number."""
        return 0.0 if self.number % 2 == 0 else 0.8 + 0.2 * float(self._drawn[0])

    @property
    def question_heat(self) -> float:
        return 0.8 + 0.2 * float(self._drawn[1])

    @property
    def has_task(self) -> bool:
        return bool(self._drawn[3] < self.plan.task_share)

    @property
    def turns(self) -> int:
        return 1 + int(self._drawn[2] * self.plan.turns)

    @property
    def _drawn(self) -> np.ndarray:
        return np.random.default_rng([self.plan.seed, self.number]).random(4)

    @property
    def text(self) -> Text:
        ids = torch.tensor(self.ids, dtype=torch.int32)
        return Text(ids, torch.tensor(self.written), self.ended)

    def add(self, ids: Sequence[int], *, written: bool = False, end: bool = False) -> None:
        """Append tokens to the text.

        Args:
            written: Whether the target wrote these tokens.
            end: Whether ``ids[0]`` ends the previous turn. If the text already ends with this
                token, the token is not added again.
        """
        ids = list(ids[1:] if end and ids and self.ids and self.ids[-1] == ids[0] else ids)
        self.ids += ids
        self.written += [written] * len(ids)

    def next_part(self, phase: int, most: int, temperature: float) -> Writing:
        seed = (self.plan.seed, self.number, phase)
        return Writing(ids=list(self.ids), most=most, temperature=temperature, draws_by=seed)


class _KeptParts:
    """The unfinished texts of a batch, saved in a file that is rewritten regularly.

    A part (an answer, for example) is what the target writes in one phase of a text. Text and phase
    determine the part's random numbers. So if a batch restarts, its parts continue where they
    ended.
    """

    def __init__(self, files: NumberedFiles, number: int) -> None:
        self._files, self._number = files, number
        self._parts = list[Writing]()
        self._earlier = dict[tuple[int, ...], tuple[list[int], bool]]()
        self._due = time.monotonic() + KEPT_EVERY
        if files.has(number):
            kept = files.read(number)
            ids = kept["ids"].split(kept["lengths"].tolist())
            for part, new, ended in zip(kept["parts"], ids, kept["ended"], strict=True):
                self._earlier[tuple(part.tolist())] = new.tolist(), bool(ended)

    def add(self, parts: Sequence[Writing]) -> None:
        """Add parts that the target is about to write; restore their saved tokens."""
        for each in parts:
            each.new, each.ended = self._earlier.get(tuple(each.draws_by), ([], False))
        self._parts += parts

    def keep_if_due(self) -> None:
        if time.monotonic() < self._due:
            return
        tensors = {
            "parts": torch.tensor([list(each.draws_by) for each in self._parts]),
            "ids": torch.tensor([token for each in self._parts for token in each.new]).int(),
            "lengths": torch.tensor([len(each.new) for each in self._parts]),
            "ended": torch.tensor([each.ended for each in self._parts]),
        }
        self._files.write(self._number, tensors)
        self._due = time.monotonic() + KEPT_EVERY


class _Turns(Value):
    """The tokens of a chat template before a question, before its answer, and between turns."""

    begin: list[int]
    answer: list[int]
    between: list[int]

    @staticmethod
    def of(pair: Pair) -> _Turns:
        """Split the chat template at the messages, by rendering it with placeholders."""
        user, reply = (
            Message(role="user", content=_PLACE),
            Message(role="assistant", content=_PLACE),
        )
        once = _rendered(pair, ())
        twice = _rendered(pair, (user, reply))
        begin, answer = once.split(_PLACE, 1)
        try:
            first, middle, between, last = twice.split(_PLACE)
        except ValueError:
            raise TrainingError(
                f"The chat template of {pair.info.target.name} changes the messages.",
                remedy="Give prompts for the target to answer.",
            ) from None
        del first, middle, last

        def ids(text: str) -> list[int]:
            return list(pair.tokenizer(text, add_special_tokens=False)["input_ids"])

        return _Turns(begin=ids(begin), answer=ids(answer), between=ids(between))


def _rendered(pair: Pair, before: tuple[Message, ...]) -> str:
    asked = Conversation(before=before, text=_PLACE)
    return render_chat(pair.tokenizer, pair.info.target.name, asked.messages)


def _arrays(texts: Sequence[Text]) -> dict[str, torch.Tensor]:
    return {
        "ids": torch.cat([each.ids for each in texts]),
        "written": torch.cat([each.written for each in texts]),
        "lengths": torch.tensor([len(each.ids) for each in texts]),
        "ended": torch.tensor([each.ended for each in texts]),
    }


def _texts(tensors: Mapping[str, torch.Tensor]) -> Iterator[Text]:
    lengths = tensors["lengths"].tolist()
    parts = zip(tensors["ids"].split(lengths), tensors["written"].split(lengths), strict=True)
    for (ids, written), ended in zip(parts, tensors["ended"].tolist(), strict=True):
        yield Text(ids, written, ended)


def _shared_beginning(texts: Sequence[Text]) -> int:
    """Return the length of the beginning that all texts share, such as a system prompt."""
    if not texts:
        return 0
    shortest = min(len(each.ids) for each in texts)
    rows = torch.stack([each.ids[:shortest] for each in texts])
    differs = (rows != rows[0]).any(0).nonzero()
    return int(differs[0]) if len(differs) else shortest


def _place(ids: torch.Tensor) -> float:
    """Return a hash of a text's first tokens, from 0 to 1; texts with a low hash are held out."""
    digest = hashlib.sha256(str(ids[:_OPENING].tolist()).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def _repeated_runs(ids: Sequence[int], length: int) -> tuple[int, int]:
    runs = [tuple(ids[i : i + length]) for i in range(len(ids) - length + 1)]
    return len(runs) - len(set(runs)), len(runs)

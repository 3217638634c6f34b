"""Tasks that a chat model answers in its texts. Most are about a passage that it writes first.

A model that only talks to itself is seldom asked to summarise, translate or extract. A draft that
never saw such answers predicts them badly.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import numpy as np

from specviz import ASSETS
from specviz.values import Value

_KINDS = ("text", "code", "alone")  # what a task is about
_WORDS = 6  # of a passage that are quoted
_SENTENCE = re.compile(r"[^.!?\n]*[^\W\d_]{2}[^.!?\n]*[.!?]?")  # not the "1." of a list


class Task(Value):
    """A task for the target.

    If ``has_passage``, the task is about a passage that the target writes first. The passage
    answers ``question``; if ``question`` is None, the target also writes the question.
    """

    ask: str
    slots: dict[str, str]
    has_passage: bool
    question: str | None

    def prompt(self, passage: str = "") -> str:
        """Return the task as a message to the target, which contains or quotes ``passage``."""
        sentence = _SENTENCE.search(passage)
        words = " ".join(passage.split()[:_WORDS])
        return self.ask.format(
            passage=passage, sentence=(sentence[0] if sentence else passage).strip(),
            words=words.replace('"', "'"), **self.slots,
        )  # fmt: skip


def task_of(seed: int, number: int) -> Task:
    """Return the task of a text; it depends on the seed and the text's number alone."""
    tasks, draws = _tasks(), np.random.default_rng([seed, number, 1])

    def drawn(options: list[str]) -> str:
        return options[int(draws.integers(len(options)))]

    asks = [(kind, ask) for kind in _KINDS for ask in tasks[kind]]
    kind, ask = asks[int(draws.integers(len(asks)))]
    slots = {name: drawn(values) for name, values in tasks["slots"].items()}
    languages = [each for each in tasks["slots"]["language"] if each != slots["language"]]
    slots["language_2"] = drawn(languages)
    coding = [each for each in tasks["alone"] if "{exercise}" in each]
    return Task(
        ask=ask,
        slots=slots,
        has_passage=kind != "alone",
        question=drawn(coding).format(**slots) if kind == "code" else None,
    )


@cache
def _tasks() -> dict[str, Any]:
    return json.loads((ASSETS / "draft_tasks.json").read_text(encoding="utf-8"))

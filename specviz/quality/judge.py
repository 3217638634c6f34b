"""A judge behind an OpenAI-compatible address: which of two answers is better?

The judge sees each pair in both orders. If the two choices disagree, the pair is a tie. A pair is
left out if a reply makes no clear choice, or if a request fails twice. The share of choices for
the answer shown first measures the judge's position bias. The share of choices for the longer
answer measures its length bias.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from threading import Event
from typing import Literal, cast

from specviz.errors import ConfigError, ServerError
from specviz.quality.scorers import AnswerText, plain
from specviz.record.server_run import ServerInfo
from specviz.servers.address import SERVER_KEY
from specviz.servers.connection import Connection, Limits
from specviz.servers.finding import find_server
from specviz.servers.foreign_json import inside
from specviz.servers.openai import CHAT
from specviz.values import Value

Choice = Literal["first", "second", "tie", "none", "failed"]  # "none": no clear choice
PROMPT = """Two assistants answered the same prompt. Which answer is better?

Prompt:
{prompt}

Answer A:
{first}

Answer B:
{second}

Reply with one word: A, B or tie."""
PLACES: tuple[str, ...] = ("{prompt}", "{first}", "{second}")
_LIMITS = Limits(between=60.0, total=120.0)
LONGEST = 1024  # tokens of a reply, with the reasoning of a model that reasons
_PAUSE = 1.0  # seconds before a failed request is sent again
_MOST_FAILURES = 3  # questions in a row that may fail
_MOST_UNCLEAR = 20  # replies in a row without a clear choice
_SHOWN = 80  # characters of a reply in a message
_REASONING = re.compile(r"<think>.*?</think>", re.DOTALL)
_WORDS: dict[str, Choice] = {"a": "first", "b": "second", "tie": "tie"}
# A word on its own or before punctuation: "A hard question", "A or B" and "A, B" choose nothing.
_REPLY = re.compile(
    r"\W*(?:(?:the\s+)?(?:better\s+)?answer\s+(?:is\s+)?|a\s+(?=tie))?(a|b|tie)"
    r"(?!\s*[,/]\s*(?-i:[AB]\b|tie))(?=\W*$|\s*[.,:;)*\n-]|\s+is\s+better)",
    re.IGNORECASE,
)
_BETTER = re.compile(r"\b(a|b) is better", re.IGNORECASE)


class JudgedPair(Value):
    """The choices for a pair of answers in both orders.

    A choice says whether the judge chose the answer shown first or second. ``forward`` is the
    choice with the first answer shown first, ``backward`` with the second answer shown first.
    ``longer`` is the longer answer. ``asked`` is False for equal answers, which are a tie without
    a question.
    """

    prompt: int
    forward: Choice
    backward: Choice
    longer: Literal["first", "second", "neither"]
    asked: bool = True

    @property
    def outcome(self) -> float | None:
        """Return 1 if the first answer wins, 0 if the second wins, and 0.5 for a tie.

        None if a reply is missing or makes no clear choice.
        """
        if {"none", "failed"} & {self.forward, self.backward}:
            return None
        wins = (self.forward == "first") - (self.forward == "second")
        wins += (self.backward == "second") - (self.backward == "first")
        return {2: 1.0, -2: 0.0}.get(wins, 0.5)


class JudgeBias(Value):
    """How often the judge chose the answer shown first, and how often the longer answer.

    ``first_place`` and ``longer`` are shares; None if the judge made no choice. ``failure`` is the
    error message of the last failed question.
    """

    first_place: float | None
    longer: float | None
    unclear: int  # replies without a clear choice
    replies: int
    failed: int = 0  # questions without a reply
    failure: str = ""


class Judge:
    """A judge at one address.

    ``replies`` maps the hash of a question to the choice, so that no question is asked twice.
    """

    def __init__(
        self,
        address: str,
        *,
        prompt: str = PROMPT,
        allow_remote: bool = False,
        replies: Mapping[str, str] | None = None,
    ) -> None:
        if missing := [each for each in PLACES if each not in prompt]:
            raise ConfigError(
                f"The judge's prompt does not contain {', '.join(missing)}.",
                remedy="Put each placeholder where its text belongs.",
            )
        self._info: ServerInfo = find_server(address, allow_remote=allow_remote)
        self._connection = Connection(
            address, key=SERVER_KEY, allow_remote=allow_remote, limits=_LIMITS
        )
        self._prompt = prompt
        self._failures = self._unclear = 0  # in a row
        self._stopped = Event()
        self.replies: dict[str, str] = dict(replies or {})
        self.failure = ""

    @property
    def model(self) -> str:
        return self._info.model

    def stop(self) -> None:
        self._stopped.set()
        self._connection.stop()

    def choose(self, prompt: str, first: str, second: str) -> Choice:
        """Return the judge's choice between two answers, shown in this order.

        Raises:
            ServerError: several questions in a row failed, or many replies in a row were unclear.
        """
        filled = fill(self._prompt, prompt, first, second)
        question = hashlib.sha256(filled.encode()).hexdigest()[:32]
        if question in self.replies:
            return cast("Choice", self.replies[question])
        body = {
            "model": self._info.model,
            "messages": [{"role": "user", "content": filled}],
            "max_tokens": LONGEST,
            "temperature": 0,
        }
        try:
            answer = self._asked(body)
        except ServerError as error:
            self._failures += 1
            self.failure = str(error)
            if self._failures >= _MOST_FAILURES or self._stopped.is_set():
                raise
            return "failed"
        self._failures = 0
        reply = _reply(answer)
        choice = self.replies[question] = read_choice(reply)
        self._check_clear(choice, reply)
        return choice

    def _asked(self, body: Mapping[str, object]) -> object:
        """Send a request and return the answer; if the request fails, send it once more."""
        try:
            return self._connection.post(CHAT, body)
        except ServerError:
            if self._stopped.wait(_PAUSE):
                raise
            return self._connection.post(CHAT, body)

    def _check_clear(self, choice: Choice, reply: object) -> None:
        self._unclear = self._unclear + 1 if choice == "none" else 0
        if self._unclear >= _MOST_UNCLEAR:
            shown = " ".join(reply.split())[:_SHOWN] if isinstance(reply, str) else "no text"
            raise ServerError(
                f"{_MOST_UNCLEAR} replies of the judge in a row made no clear choice. The last one "
                f"begins: {shown}",
                remedy="Give another judge, or a prompt that asks for A, B or tie.",
            )

    def judge(self, prompt: int, first: AnswerText, second: AnswerText) -> JudgedPair:
        if first.text == second.text:
            return JudgedPair(
                prompt=prompt, forward="tie", backward="tie", longer="neither", asked=False
            )
        asked, longer = plain(first.prompt), len(first.text) - len(second.text)
        return JudgedPair(
            prompt=prompt,
            forward=self.choose(asked, first.text, second.text),
            backward=self.choose(asked, second.text, first.text),
            longer="first" if longer > 0 else "second" if longer < 0 else "neither",
        )


def fill(template: str, prompt: str, first: str, second: str) -> str:
    """Return the template with the texts; placeholders inside the texts stay as they are."""
    texts = dict(zip(PLACES, (prompt, first, second), strict=True))
    places = re.compile("|".join(map(re.escape, PLACES)))
    return places.sub(lambda found: texts[found[0]], template)


def _reply(answer: object) -> object:
    choices = inside(answer, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return inside(first, "message", "content")


def read_choice(reply: object) -> Choice:
    """Return the choice at the beginning of a reply; "none" if this choice is not clear."""
    text = _REASONING.sub("", reply) if isinstance(reply, str) else ""
    found = _REPLY.match(text)
    if found is None or len({each.lower() for each in _BETTER.findall(text)}) > 1:
        return "none"
    return _WORDS[found[1].lower()]


def pairs_to_judge(count: int, most: int, random: Random) -> Iterator[tuple[int, int]]:
    """Yield indices of up to ``most`` of the count × count pairs of texts, in random order."""
    everything = [(one, other) for one in range(count) for other in range(count)]
    yield from random.sample(everything, min(most, len(everything)))


def outcomes_of_judged(judged: Sequence[JudgedPair]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for each in judged:
        if (outcome := each.outcome) is not None:
            found.setdefault(each.prompt, []).append(outcome)
    return found


def bias_of(judged: Sequence[JudgedPair], failure: str = "") -> JudgeBias:
    asked = [each for each in judged if each.asked]
    choices = [choice for each in asked for choice in (each.forward, each.backward)]
    places, longer, failed = list[bool](), list[bool](), choices.count("failed")
    for each in asked:
        # In the backward order, the second answer has the first place.
        for choice, first_shown in ((each.forward, "first"), (each.backward, "second")):
            if choice not in ("first", "second"):
                continue
            places.append(choice == "first")
            chosen = first_shown if choice == "first" else _other(first_shown)
            if each.longer != "neither":
                longer.append(chosen == each.longer)
    return JudgeBias(
        first_place=sum(places) / len(places) if places else None,
        longer=sum(longer) / len(longer) if longer else None,
        unclear=choices.count("none"),
        replies=len(choices) - failed,
        failed=failed,
        failure=failure,
    )


def _other(place: str) -> str:
    return "second" if place == "first" else "first"

"""Models for scoring: they return the tokens of a text, and distributions along a known text.

A model is served by an engine or loaded locally. Texts are sent as token ids, without added tokens.
Distributions are raw: at temperature 1 without filters. Every number from an engine is checked
before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from specviz.errors import ServerError
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairSpec
from specviz.record.server_run import ServerInfo
from specviz.servers.connection import Connection
from specviz.servers.distribution_study import DistributionStudy, TokenStudy
from specviz.servers.foreign_json import whole, wholes
from specviz.theory.listed_distributions import ListedDistribution, is_raw

_WINDOW_ENTRIES = 2**16  # most log-probabilities in an answer with whole distributions
_MOST_WINDOW = 16  # positions
_LOWEST = -1e6  # lowest log-probability; exp(-1e6) is 0
_LONGEST_ID = 9  # digits
_TOKENS, _TOKENS_A_BYTE = 16, 4  # most tokens of a text: this many, and this many per byte


class TokenModel(Protocol):
    """A model for scoring.

    ``label`` names the model in messages; ``info`` describes the engine that serves the model.
    """

    @property
    def label(self) -> str: ...

    @property
    def info(self) -> ServerInfo | None: ...

    def tokens(self, text: str) -> tuple[int, ...]: ...

    def distributions(
        self, prompt_ids: Sequence[int], text_ids: Sequence[int], top: int | None
    ) -> Iterator[ListedDistribution]:
        """Yield the distribution at each token of the text.

        ``top``: number of likeliest tokens to list; None for all.
        """
        ...

    def token_texts(self) -> Mapping[int, str]:
        """Return the text of every token whose text is known so far, by token id."""
        ...

    def texts_of(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of consecutive tokens; "" for an unknown token."""
        ...


class _ServedModel:
    """A model on a server, with the tokenizer of its engine."""

    def __init__(self, info: ServerInfo, connection: Connection) -> None:
        self.label = f"{info.model} at {info.address}"
        self.info, self._model, self._connection = info, info.model, connection
        self._texts: dict[int, str] = {}

    def tokens(self, text: str) -> tuple[int, ...]:
        request = {"model": self._model, "prompt": text, "add_special_tokens": False}
        reported = _fields(self._connection.post("/tokenize", request)).get("tokens")
        found = wholes(reported)
        if not found and reported != []:
            raise _no_distributions(self.label, "does not report the tokens of a text")
        if len(found) > _TOKENS + _TOKENS_A_BYTE * len(text.encode()):
            raise _no_distributions(
                self.label, f"tokenizes a short text into {len(found):,} tokens"
            )
        return found

    def token_texts(self) -> Mapping[int, str]:
        return self._texts

    def texts_of(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the texts without the key, even if the key is split over tokens."""
        found = [self._texts.get(each, "") for each in ids]
        return self._connection.remover.from_tokens(found)

    def _id(self, text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or len(text) > _LONGEST_ID:
            raise _no_distributions(self.label, "lists tokens that have no id")
        return int(text)


class VllmModel(_ServedModel):
    def distributions(
        self, prompt_ids: Sequence[int], text_ids: Sequence[int], top: int | None
    ) -> Iterator[ListedDistribution]:
        if top is None:
            self._listed_rows(prompt_ids, text_ids, 1)  # to learn the tokens' texts
            yield from self._whole(prompt_ids, text_ids)
            return
        rows = self._listed_rows(prompt_ids, text_ids, top)
        for token, listed in zip(text_ids, rows[len(prompt_ids) :], strict=True):
            own = _number(listed.get(token, {}).get("logprob"), self.label)
            ranked = {
                each: _number(entry.get("logprob"), self.label) for each, entry in listed.items()
                if (whole(entry.get("rank")) or top + 1) <= max(1, top)
            }  # fmt: skip
            yield _raw(_listed(ranked, own, self.label), self.label)

    def _listed_rows(
        self, prompt_ids: Sequence[int], text_ids: Sequence[int], top: int
    ) -> list[dict[int, Mapping[str, Any]]]:
        """Return, for each position, vLLM's entries for the likeliest tokens, by token id.

        The first position has no entries, because nothing precedes it.
        """
        ids = [*prompt_ids, *text_ids]
        found = self._ask([ids], prompt_logprobs=top)[0].get("prompt_logprobs")
        if not isinstance(found, list) or len(cast("list[object]", found)) != len(ids):
            raise _no_distributions(self.label, "returns no log-probabilities of the prompt")
        rows = [
            {self._id(token): _fields(each) for token, each in _fields(row).items()}
            for row in cast("list[object]", found)
        ]
        for listed in rows:
            self._learn(listed)
        return rows

    def _whole(
        self, prompt_ids: Sequence[int], text_ids: Sequence[int]
    ) -> Iterator[ListedDistribution]:
        """Yield whole distributions, read in windows of a few positions.

        For each position, the tokens before it are sent as a prompt, and one more token is
        requested. Only a few positions are requested at once: with a large vocabulary, the
        distributions at all positions would take gigabytes.
        """
        ids, place, window = [*prompt_ids, *text_ids], 0, 1
        while place < len(text_ids):
            first = len(prompt_ids) + place
            count = min(window, len(text_ids) - place)
            prefixes = [ids[: first + each] for each in range(count)]
            for token, choice in zip(
                text_ids[place:], self._ask(prefixes, logprobs=-1), strict=False
            ):
                found = self._next_distribution(choice, token)
                window = max(1, min(_MOST_WINDOW, _WINDOW_ENTRIES // len(found.token_ids)))
                yield found
            place += count

    def _next_distribution(self, choice: Mapping[str, Any], token: int) -> ListedDistribution:
        tops = _fields(choice.get("logprobs")).get("top_logprobs")
        if not isinstance(tops, list) or not tops:
            raise _no_distributions(self.label, "does not return whole distributions")
        listed = {
            self._id(name.removeprefix("token_id:")): _number(each, self.label)
            for name, each in _fields(cast("list[object]", tops)[0]).items()
        }
        if token not in listed:
            raise _no_distributions(self.label, f"has no token {token}")
        return _raw(_listed(listed, listed[token], self.label, whole=True), self.label)

    def _ask(self, prompts: list[list[int]], **wanted: int) -> list[Mapping[str, Any]]:
        request = {
            "model": self._model, "prompt": prompts, "max_tokens": 1, "temperature": 1.0,
            "add_special_tokens": False, "return_tokens_as_token_ids": True, **wanted,
        }  # fmt: skip
        answer = _fields(self._connection.post("/v1/completions", request))
        found = answer.get("choices")
        choices = [_fields(each) for each in found] if isinstance(found, list) else []
        places = [whole(each.get("index")) for each in choices]
        if sorted(place for place in places if place is not None) != list(range(len(prompts))):
            raise _no_distributions(self.label, "did not answer every prompt")
        return [choices[places.index(place)] for place in range(len(prompts))]

    def _learn(self, listed: Mapping[int, Mapping[str, Any]]) -> None:
        for token, entry in listed.items():
            text = entry.get("decoded_token")
            if isinstance(text, str):
                self._texts[token] = text


class SglangModel(_ServedModel):
    """A model that SGLang serves. The class follows SGLang's documentation; it is untested."""

    def distributions(
        self, prompt_ids: Sequence[int], text_ids: Sequence[int], top: int | None
    ) -> Iterator[ListedDistribution]:
        if top is None:
            raise _no_distributions(self.label, "lists the likeliest tokens only")
        answer = self._connection.post(
            "/generate",
            {
                "input_ids": [*prompt_ids, *text_ids],
                "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
                "return_logprob": True,
                "return_text_in_logprobs": True,
                "logprob_start_len": len(prompt_ids) - 1,
                "top_logprobs_num": max(1, top),
            },
        )
        meta = _fields(_fields(answer).get("meta_info"))
        own, tops = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
        if not isinstance(own, list) or not isinstance(tops, list) or len(own) < len(text_ids):
            raise _no_distributions(self.label, "returns no log-probabilities of the prompt")
        own, tops = own[-len(text_ids) :], tops[-len(text_ids) :]
        if len(own) != len(tops):
            raise _no_distributions(self.label, "returns no log-probabilities of the prompt")
        for expected, entry, row in zip(text_ids, own, tops, strict=True):
            value, found, _ = self._entry(entry)
            if found != expected:
                raise _no_distributions(self.label, f"reports token {found} instead of {expected}")
            entries = [self._entry(each) for each in row] if isinstance(row, list) else []
            listed = {token: logprob for logprob, token, _ in entries}
            yield _raw(_listed(listed, value, self.label), self.label)

    def _entry(self, entry: object) -> tuple[float, int, str]:
        """Return a log-probability with its token id and text, and store the text."""
        match entry:
            case [value, int(token), str() | None as text] if whole(token) is not None:
                self._texts[token] = text or ""
                return _number(value, self.label), token, text or ""
            case _:
                raise _no_distributions(self.label, "lists tokens in an unknown form")


class LocalModel:
    """A locally loaded model, used through the RunMaker that loads it."""

    def __init__(self, spec: PairSpec, maker: RunMaker) -> None:
        self.label, self.info = spec.label, None
        self._spec, self._maker = spec, maker
        self._texts: dict[int, str] = {}

    def tokens(self, text: str) -> tuple[int, ...]:
        ids, texts = self._maker.find(self._spec, TokenStudy(text=text))
        self._texts = dict(enumerate(cast("tuple[str, ...]", texts)))
        return cast("tuple[int, ...]", ids)

    def token_texts(self) -> Mapping[int, str]:
        return self._texts

    def texts_of(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._texts.get(each, "") for each in ids)

    def distributions(
        self, prompt_ids: Sequence[int], text_ids: Sequence[int], top: int | None
    ) -> Iterator[ListedDistribution]:
        count = None if top is None else max(1, top)
        study = DistributionStudy(prompt_ids=tuple(prompt_ids), text_ids=tuple(text_ids), top=count)
        for found in self._maker.find(self._spec, study):
            assert isinstance(found, ListedDistribution)
            yield found


def served_model(info: ServerInfo, connection: Connection) -> TokenModel:
    """Return the model that an engine serves.

    Raises:
        ServerError: The engine does not return distributions along a known text.
    """
    match info.engine:
        case "vllm":
            return VllmModel(info, connection)
        case "sglang":
            return SglangModel(info, connection)
        case _:
            raise _no_distributions(
                f"{info.model} at {info.address}",
                "does not return distributions along a known text",
            )


def _listed(
    logprobs: Mapping[int, float], own: float, label: str, *, whole: bool = False
) -> ListedDistribution:
    if not logprobs:
        raise _no_distributions(label, "lists no tokens")
    ranked = sorted(logprobs.items(), key=lambda each: -each[1])
    ids, values = zip(*ranked, strict=True)
    return ListedDistribution(
        np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64), own, whole=whole
    )


def _raw(listed: ListedDistribution, label: str) -> ListedDistribution:
    if not is_raw(listed):
        raise ServerError(
            f"{label} returns values that are not raw log-probabilities.",
            remedy="Start vLLM with `vllm serve --logprobs-mode raw_logprobs`.",
        )
    return listed


def _fields(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(value: object, label: str) -> float:
    """Return ``value`` as a float; raise ServerError if it is no number.

    A value below ``_LOWEST`` becomes ``_LOWEST``.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _no_distributions(label, "returns log-probabilities that are not numbers")
    return max(_LOWEST, float(value))  # so that differences are finite


def _no_distributions(label: str, what: str) -> ServerError:
    return ServerError(
        f"{label} {what}.",
        remedy="Scoring needs vLLM or SGLang for both models, or a locally loaded draft.",
    )

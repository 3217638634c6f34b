"""Answers the study of texts from serving engines: a target behind an address, and any draft.

What a surface needs is the target's text and two log-probabilities of each of its tokens. Both come
over HTTP, so a draft can be judged that the server does not even run. Times of steps do not: they
are given, or the surface is of accepted lengths alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Never

from specviz.errors import ConfigError, ServerError, TheoryError
from specviz.measure.run_makers import MadeRun, RunMaker, RunOrder, StoppedError, Study
from specviz.record.pairs import PairCheck, PairSpec, is_address
from specviz.record.prompts import SuiteItem
from specviz.record.scores import Law, ScoredText, TextScores
from specviz.record.server_run import ServerSettings
from specviz.record.trace import Prompt, RunConfig
from specviz.servers.address import DRAFT_KEY, SERVER_KEY, KeyName
from specviz.servers.asking import Answer, ask
from specviz.servers.connection import Connection, Limits
from specviz.servers.distribution_study import alone
from specviz.servers.finding import find_server
from specviz.servers.token_models import LocalModel, TokenModel, served_model
from specviz.theory.listed_distributions import (
    Filters,
    ListedScore,
    evidence_against,
    needed,
    score,
)
from specviz.tune.text_study import PairFound, TextStudy

_CERTAIN = 1000.0  # evidence that a law of its own reaches once in a thousand texts
_NEAR_TIES = 0.05  # of the tokens, that sums in another order may turn
_LISTED = 20  # at least, for bounds of the expected acceptance; as many as vLLM lists by itself


class EndpointMaker:
    """A maker that makes no runs. ``inner`` loads drafts that are no server's."""

    doing = ""

    def __init__(
        self,
        inner: RunMaker,
        *,
        allow_remote: bool = False,
    ) -> None:
        self._inner, self._allow_remote = inner, allow_remote
        self._stopped = False
        self._under_way: list[Connection | Answer] = []  # what a stop ends at once
        self._written: dict[tuple[str, Law, tuple[int, ...]], tuple[tuple[int, ...], bool]] = {}

    def check(self, spec: PairSpec, prompts: Sequence[str], *, chat: bool) -> PairCheck:
        del prompts, chat
        _refuse_runs(spec)

    def make(self, order: RunOrder) -> MadeRun:
        _refuse_runs(order.spec)

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        if not isinstance(study, TextStudy):
            yield from self._inner.find(spec, study)
            return
        if not is_address(spec.target):
            raise ConfigError(
                "The draft is behind an address, and the target is not.",
                remedy="Give the target's address too.",
            )
        with self._stoppable():
            target = self._model(spec.target, spec, SERVER_KEY)
            draft = self._model(spec.draft, spec, DRAFT_KEY)
        yield PairFound(info=None, memory_bytes=None)
        for law in study.laws:
            for item in study.items:
                with self._stoppable():
                    found = self._scored(study, law, item, target, draft)
                yield found

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        if self._stopped:
            raise StoppedError
        try:
            yield
        except ServerError:
            if self._stopped:  # which is why the request under way failed
                raise StoppedError from None
            raise

    def stop(self) -> None:
        self._stopped = True
        for each in self._under_way:
            each.stop()
        self._inner.stop()

    def _model(self, place: str | None, spec: PairSpec, key: KeyName) -> TokenModel:
        if place is None:
            raise ConfigError("There is no draft to score.", remedy="Give --draft.")
        if not is_address(place):
            return LocalModel(alone(place, spec), self._inner)
        info = find_server(place, allow_remote=self._allow_remote, key=key, begin=self._begin)
        connection = Connection(
            place, key=key, allow_remote=self._allow_remote, limits=Limits(total=300.0)
        )
        self._begin(connection)
        return served_model(info, connection)

    def _begin(self, request: Connection | Answer) -> None:
        self._under_way.append(request)
        if self._stopped:
            request.stop()

    def _scored(
        self,
        study: TextStudy,
        law: Law,
        item: SuiteItem,
        target: TokenModel,
        draft: TokenModel,
    ) -> ScoredText:
        filters = Filters(law.temperature, law.top_k, law.top_p)
        prompt_ids = _agreed_tokens(target, draft, item.prompt)
        if study.text is not None:
            whole = _agreed_tokens(target, draft, item.prompt + study.text)
            prompt_ids, text_ids, ends = _divided(prompt_ids, whole, bool(item.prompt))
        else:
            text_ids, ends = self._own_words(study, law, prompt_ids, target)
        rows = list(_rows(target, draft, prompt_ids, text_ids, filters))
        texts = target.texts_of((*prompt_ids, *text_ids))
        return ScoredText(
            prompt=Prompt(
                text=item.prompt,
                token_ids=prompt_ids,
                kind=item.kind,
                token_texts=texts[: len(prompt_ids)],
            ),
            law=law,
            token_ids=text_ids,
            token_texts=texts[len(prompt_ids) :],
            ends=ends,
            own=study.text is None,
            scores=_scores(rows, own=study.text is None),
            doubt=_doubt(rows) if study.text is None else "",
        )

    def _own_words(
        self, study: TextStudy, law: Law, prompt_ids: tuple[int, ...], target: TokenModel
    ) -> tuple[tuple[int, ...], bool]:
        """The target's own words, the same for all drafts, and whether they end by themselves."""
        key = target.label, law, prompt_ids
        if key not in self._written:
            self._written[key] = self._ask(study.config, law, prompt_ids, target)
        return self._written[key]

    def _ask(
        self, config: RunConfig, law: Law, prompt_ids: tuple[int, ...], target: TokenModel
    ) -> tuple[tuple[int, ...], bool]:
        assert target.info is not None
        settings = ServerSettings(
            max_new_tokens=config.max_new_tokens, temperature=law.temperature, top_k=law.top_k,
            top_p=law.top_p, seed=config.seed, ignore_eos=config.ignore_eos,
        )  # fmt: skip
        answer = ask(target.info, prompt_ids, settings, allow_remote=self._allow_remote)
        self._begin(answer)
        for _ in answer:
            pass
        self._under_way.remove(answer)
        if self._stopped:
            raise StoppedError
        trace = answer.trace()
        if not trace.rounds or not all(each.token_ids for each in trace.rounds):
            raise ServerError(
                f"{target.label} does not report the token ids of its text.",
                remedy="Score a text of your own with --text-file.",
            )
        return trace.token_ids, trace.finish == "eos"


def _refuse_runs(spec: PairSpec) -> Never:
    raise ConfigError(
        f"{spec.label} is a server, and runs are made here.",
        remedy="Watch a server's own runs with `python -m specviz attach`.",
    )


def _agreed_tokens(target: TokenModel, draft: TokenModel, text: str) -> tuple[int, ...]:
    """The tokens of a text, which both must divide alike."""
    if not text:
        return ()
    found = target.tokens(text)
    if found != draft.tokens(text):
        raise ServerError(
            f"{target.label} and {draft.label} divide the text into other tokens.",
            remedy="Choose a draft with the target's tokenizer.",
        )
    return found


def _divided(
    prompt_ids: tuple[int, ...], whole: tuple[int, ...], has_prompt: bool
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Prompt and text; without a prompt the first token, which nothing comes before, is it."""
    first = len(prompt_ids) if has_prompt else 1
    if len(whole) <= first:
        raise ConfigError(
            "The text has a single token, which has nothing before it.",
            remedy="Give a longer text, or a prompt before it.",
        )
    return whole[:first], whole[first:], False


def _rows(
    target: TokenModel,
    draft: TokenModel,
    prompt_ids: Sequence[int],
    text_ids: Sequence[int],
    filters: Filters,
) -> Iterator[ListedScore]:
    top = needed(filters)
    if top is not None:
        top = max(top, _LISTED)
    laws = (each.laws(prompt_ids, text_ids, top) for each in (target, draft))
    try:
        for token, of_target, of_draft in zip(text_ids, *laws, strict=True):
            yield score(of_target, of_draft, token, filters)
    except TheoryError as error:
        raise ServerError(error.culprit, remedy=error.remedy) from None
    _check_tables(target, draft)


def _check_tables(target: TokenModel, draft: TokenModel) -> None:
    """An id must stand for the same token at both ends."""
    known, others = target.token_texts(), draft.token_texts()
    for token in known.keys() & others.keys():
        one, other = known[token], others[token]
        # An engine writes bytes that are no whole character as it likes.
        if one != other and "\ufffd" not in one + other:
            raise ServerError(
                f"Token {token} is {one!r} for {target.label} and {other!r} for {draft.label}.",
                remedy="Choose a draft with the target's tokenizer.",
            )


def _scores(rows: Sequence[ListedScore], *, own: bool) -> TextScores:
    ends = [(each.low, each.high) for each in rows]
    bounds = tuple((low, high) for low, high in ends if low is not None and high is not None)
    exact = all(low == high for low, high in bounds)
    found = TextScores(
        odds=tuple(each.odds for each in rows),
        overlaps=tuple(low for low, _ in bounds) if exact else (),
        overlap_bounds=() if exact else bounds,
        text_probs=tuple(each.target_prob for each in rows),
        draft_entropies=(),
        target_entropies=(),
        matches=tuple(each.matches for each in rows),
        agrees=tuple(each.agrees for each in rows),
    )
    return found.as_written() if own else found


def _doubt(rows: Sequence[ListedScore]) -> str:
    """Whether words that came as the target's own can be its."""
    found = sum(each.likely for each in rows)
    expected = sum(each.mass for each in rows)
    impossible = sum(each.target_prob == 0.0 for each in rows)
    if evidence_against(rows) < _CERTAIN and impossible <= _NEAR_TIES * len(rows):
        return ""
    if impossible:
        return (
            f"The server's words are not its target's: {impossible} of {len(rows)} tokens are "
            "impossible under this law."
        )
    return (
        f"The server's words are not its target's: {found} of {len(rows)} tokens are among the "
        f"likeliest, where {expected:.0f} are expected under this law. Its speculation is wrong at "
        "this temperature, and odds along these words say little."
    )

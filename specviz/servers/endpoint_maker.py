"""Score texts with a target on a server and any draft.

Scoring needs the target's text and, for each token, a log-probability from each model. Engines
return them over HTTP, so a draft can be scored even if the target's server does not run it.
Engines do not report step times, so the caller must give step costs to get speedups. Without step
costs, only tokens per round are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Never

from specviz.errors import ConfigError, ServerError, TheoryError
from specviz.measure.run_makers import MadeRun, RunMaker, RunOrder, Study
from specviz.measure.stoppable import StoppableWork
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairCheck, PairSpec, is_address
from specviz.record.prompts import SuiteItem
from specviz.record.scores import SamplingParams, ScoredText, TextScores
from specviz.record.server_run import ServerSettings
from specviz.record.trace import Prompt
from specviz.servers.address import DRAFT_KEY, SERVER_KEY, KeyName
from specviz.servers.asking import ask
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

_CERTAIN = 1000.0  # for a correct server, the evidence reaches this in at most one of 1000 texts
# The share of a text's tokens that may differ if logits are summed in another order.
_NEAR_TIES = 0.05
_LISTED = 20  # fewest tokens to list, for bounds of expected acceptance; vLLM's default limit


class EndpointMaker(StoppableWork):
    """Scores texts with a target on a server, but refuses to make runs.

    ``inner`` loads local drafts.
    """

    doing = ""

    def __init__(self, inner: RunMaker, *, allow_remote: bool = False) -> None:
        super().__init__()
        self._inner, self._allow_remote = self._begin(inner), allow_remote
        self._written: dict[
            tuple[str, SamplingParams, tuple[int, ...]], tuple[tuple[int, ...], bool]
        ] = {}

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
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
                "The draft is on a server, but the target is not.",
                remedy="Give the target's address, too.",
            )
        with self._stopped_instead_of(ServerError):
            target = self._model(spec.target, spec, SERVER_KEY)
            draft = self._model(spec.draft, spec, DRAFT_KEY)
        yield PairFound(info=None, memory_bytes=None)
        for sampling in study.samplings:
            for item in study.items:
                with self._stopped_instead_of(ServerError):
                    found = self._scored(study, sampling, item, target, draft)
                yield found

    def _model(self, place: str | None, spec: PairSpec, key: KeyName) -> TokenModel:
        if place is None:
            raise ConfigError("There is no draft to score.", remedy="Give --draft.")
        if not is_address(place):
            return LocalModel(alone(place, spec), self._inner)
        info = find_server(place, allow_remote=self._allow_remote, key=key, begin=self._begin)
        connection = Connection(
            place, key=key, allow_remote=self._allow_remote, limits=Limits(total=300.0)
        )
        return served_model(info, self._begin(connection))

    def _scored(
        self,
        study: TextStudy,
        sampling: SamplingParams,
        item: SuiteItem,
        target: TokenModel,
        draft: TokenModel,
    ) -> ScoredText:
        filters = Filters(sampling.temperature, sampling.top_k, sampling.top_p)
        prompt_ids = _agreed_tokens(target, draft, item.prompt)
        if study.text is not None:
            whole = _agreed_tokens(target, draft, item.prompt + study.text)
            prompt_ids, text_ids, ends = _divided(prompt_ids, whole, bool(item.prompt))
        else:
            text_ids, ends = self._target_text(study, sampling, prompt_ids, target)
        rows = list(_rows(target, draft, prompt_ids, text_ids, filters))
        texts = target.texts_of((*prompt_ids, *text_ids))
        return ScoredText(
            prompt=Prompt(
                text=item.prompt,
                token_ids=prompt_ids,
                kind=item.kind,
                token_texts=texts[: len(prompt_ids)],
            ),
            sampling=sampling,
            token_ids=text_ids,
            token_texts=texts[len(prompt_ids) :],
            ends=ends,
            own=study.text is None,
            scores=_scores(rows, own=study.text is None),
            doubt=_doubt(rows) if study.text is None else "",
        )

    def _target_text(
        self,
        study: TextStudy,
        sampling: SamplingParams,
        prompt_ids: tuple[int, ...],
        target: TokenModel,
    ) -> tuple[tuple[int, ...], bool]:
        """Return the target's text and whether it ends with EOS.

        The text is cached, so all drafts are scored along the same text.
        """
        key = target.label, sampling, prompt_ids
        if key not in self._written:
            config = study.config
            settings = ServerSettings(
                max_new_tokens=config.max_new_tokens, temperature=sampling.temperature,
                top_k=sampling.top_k, top_p=sampling.top_p, seed=config.seed,
                ignore_eos=config.ignore_eos,
            )  # fmt: skip
            self._written[key] = self._ask(settings, prompt_ids, target)
        return self._written[key]

    def _ask(
        self, settings: ServerSettings, prompt_ids: tuple[int, ...], target: TokenModel
    ) -> tuple[tuple[int, ...], bool]:
        assert target.info is not None
        answer = self._begin(
            ask(target.info, prompt_ids, settings, allow_remote=self._allow_remote)
        )
        for _ in answer:
            pass
        self._parts.remove(answer)
        self._check_stop()
        trace = answer.trace()
        if not trace.rounds or not all(each.token_ids for each in trace.rounds):
            raise ServerError(
                f"{target.label} does not report the token ids of its text.",
                remedy="Score a text of your own with `python -m specviz score --text-file`.",
            )
        return trace.token_ids, trace.finish == "eos"


def _refuse_runs(spec: PairSpec) -> Never:
    raise ConfigError(
        f"{spec.label} is a server, but runs need locally loaded models.",
        remedy="Use `python -m specviz attach` to measure a server.",
    )


def _agreed_tokens(target: TokenModel, draft: TokenModel, text: str) -> tuple[int, ...]:
    """Return the tokens of a text; raise ServerError if the models tokenize it differently."""
    if not text:
        return ()
    found = target.tokens(text)
    if found != draft.tokens(text):
        raise ServerError(
            f"{target.label} and {draft.label} tokenize the text differently.",
            remedy="Choose a draft with the target's tokenizer.",
        )
    return found


def _divided(
    prompt_ids: tuple[int, ...], whole: tuple[int, ...], has_prompt: bool
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Split tokens into prompt and text; without a prompt, the first token is the prompt.

    The third value, whether the text ends with EOS, is always False.
    """
    first = len(prompt_ids) if has_prompt else 1
    if len(whole) <= first:
        raise ConfigError(
            "The text has a single token and no prompt before it.",
            remedy="Give a longer text, or a prompt.",
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
    both = (each.distributions(prompt_ids, text_ids, top) for each in (target, draft))
    try:
        for token, target_probs, draft_probs in zip(text_ids, *both, strict=True):
            yield score(target_probs, draft_probs, token, filters)
    except TheoryError as error:
        raise ServerError(error.culprit, remedy=error.remedy) from None
    _check_tables(target, draft)


def _check_tables(target: TokenModel, draft: TokenModel) -> None:
    """Raise ServerError if an id belongs to different tokens in the two models."""
    known, others = target.token_texts(), draft.token_texts()
    for token in known.keys() & others.keys():
        one, other = known[token], others[token]
        # Engines spell incomplete characters differently.
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
    """Return the evidence that the text does not follow the target's distribution; "" if none."""
    found = sum(each.likely for each in rows)
    expected = sum(each.mass for each in rows)
    impossible = sum(each.target_prob == 0.0 for each in rows)
    if evidence_against(rows) < _CERTAIN and impossible <= _NEAR_TIES * len(rows):
        return ""
    if impossible:
        return (
            "The server's text does not follow its target's distribution: "
            f"{impossible} of {len(rows)} tokens are impossible with these sampling settings."
        )
    return (
        f"The server's text does not follow its target's distribution: {found} of its "
        f"{len(rows)} tokens are among the target's likeliest tokens; {expected:.0f} were "
        "expected. The server's speculation is wrong at this temperature, so acceptance along this "
        "text is not reliable."
    )

"""Measure a running engine's acceptance by position, under several conditions.

Each prompt is sent alone, then sent again, so that the second answer may use the engine's prefix
cache. Then several prompts are sent at once. Last, if the plan has a temperature above 0, each
prompt is sent alone with sampling. Acceptance is computed from the increase of the engine's
counters, so no other client may use the engine during the measurement. If the counters do not agree
with the answers, the measurement fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specviz.errors import ConfigError, ServerError
from specviz.measure.stoppable import StoppableWork
from specviz.record.limits import MAX_GAMMA
from specviz.record.prompts import Preset, read_chat_prompts, read_presets
from specviz.record.run_config import RunConfig
from specviz.record.server_run import Counters, ServerInfo, ServerSettings, ServerTrace
from specviz.servers.address import SERVER_KEY
from specviz.servers.asking import ask
from specviz.servers.connection import Limits
from specviz.servers.counters import read_counters, went_back
from specviz.tune.parity_values import (
    Condition,
    Counts,
    EngineMeasurement,
    EngineText,
    Sample,
    Unit,
    total,
)
from specviz.values import Value

LEAST_PROMPTS, PROMPTS, TOKENS = 4, 16, 64  # fewest prompts; default number; tokens per answer
_MOST_AT_ONCE = 4
_JOINED = 2  # other texts that precede a text to continue
_LIMITS = Limits(between=120.0, total=300.0)
_COUNTED_WITHIN = 10.0  # seconds after an answer's end; by then the counters must include it
_EVERY = 0.05


class MeasuringPlan(Value):
    """The requests of an acceptance measurement.

    Only the "sampled" requests use ``settings.temperature``; all others are greedy.
    """

    prompts: tuple[str, ...]
    settings: ServerSettings

    def __post_init__(self) -> None:
        assert len(self.prompts) >= LEAST_PROMPTS

    @property
    def at_once(self) -> int:
        """Return how many prompts are sent at once.

        The number is at most half of the prompts, so that there are two groups or more.
        """
        return min(_MOST_AT_ONCE, len(self.prompts) // 2)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        sampled: tuple[Condition, ...] = ("sampled",) if self.settings.temperature > 0 else ()
        return ("alone", "repeated", "concurrent", *sampled)

    @property
    def requests(self) -> int:
        return len(self.prompts) * len(self.conditions)

    def words(self, address: str) -> str:
        """Return text such as "32 requests (8 prompts, 4 times each), …, to localhost:8000"."""
        return (
            f"{self.requests} requests ({len(self.prompts)} prompts, "
            f"{len(self.conditions)} times each), for at most {self.settings.max_new_tokens} "
            f"tokens each, to {address}"
        )


def default_prompts(count: int, *, chat: bool) -> tuple[str, ...]:
    """Return ``count`` shipped prompts, evenly spaced in the list of all shipped prompts.

    Without ``chat``, each prompt is several texts of the same kind, because one text alone would
    not fill two blocks of an engine's prefix cache.
    """
    texts = _texts(chat=chat)
    return tuple(texts[index * len(texts) // count] for index in range(count))


def _texts(*, chat: bool) -> tuple[str, ...]:
    if chat:
        return tuple(each.text for each in read_chat_prompts() if not each.before)
    return tuple(_joined(read_presets()))


def _joined(presets: Sequence[Preset]) -> Iterator[str]:
    for index, each in enumerate(presets):
        same = [other.text for other in presets[:index] if other.kind == each.kind]
        later = [other.text for other in presets[index + 1 :] if other.kind == each.kind]
        yield "\n\n".join([*(*later, *same)[-_JOINED:], each.text])


def measuring_plan(config: RunConfig, count: int) -> MeasuringPlan:
    """Return the plan for ``count`` shipped prompts.

    Raises:
        ConfigError: There are fewer than ``count`` shipped prompts, or ``count`` is too small.
    """
    most = len(_texts(chat=config.chat))
    if not LEAST_PROMPTS <= count <= most:
        raise ConfigError(
            f"{count} prompts were requested.",
            remedy=f"Give a number from {LEAST_PROMPTS} to {most}.",
        )
    settings = ServerSettings(
        max_new_tokens=TOKENS, temperature=config.temperature, top_k=config.top_k,
        top_p=config.top_p, seed=config.seed, chat=config.chat,
    )  # fmt: skip
    return MeasuringPlan(prompts=default_prompts(count, chat=config.chat), settings=settings)


class AcceptanceMeter(StoppableWork):
    """Measures the acceptance of one engine; ``done`` is the number of finished requests.

    Any thread may stop the measurement.
    """

    def __init__(self, info: ServerInfo, plan: MeasuringPlan, *, allow_remote: bool) -> None:
        super().__init__()
        if not info.capabilities.counters:
            raise ServerError(
                f"{info.title} at {info.address} exposes no counters.",
                remedy="Start the engine with its metrics enabled.",
            )
        self._info, self._plan, self._allow_remote = info, plan, allow_remote
        self._before: Counters | None = None
        self.done = 0

    def measure(self) -> EngineMeasurement:
        """Send all prompts; return the answers and counts of each condition.

        Raises:
            ServerError: the engine fails, or its counters do not agree with its answers.
            StoppedError: another thread stopped the measurement.
        """
        with self._stopped_instead_of(ServerError):
            self._before = self._read()
            samples = tuple(self._samples())
        counts = [unit.counts for unit in samples[0].units]
        return EngineMeasurement(
            address=self._info.address,
            title=self._info.title,
            gamma=self._gamma(counts),
            chat=self._plan.settings.chat,
            max_new_tokens=self._plan.settings.max_new_tokens,
            samples=samples,
        )

    def _samples(self) -> Iterator[Sample]:
        plan = self._plan
        greedy = replace(plan.settings, temperature=0.0)
        numbers = range(len(plan.prompts))
        twice = [[self._unit(number, greedy) for _ in range(2)] for number in numbers]
        yield Sample(condition="alone", temperature=0.0, units=tuple(each[0] for each in twice))
        yield Sample(condition="repeated", temperature=0.0, units=tuple(each[1] for each in twice))
        groups = _groups(numbers, plan.at_once)
        units = tuple(each for group in groups for each in self._units(group, greedy))
        yield Sample(condition="concurrent", temperature=0.0, units=units)
        if "sampled" in plan.conditions:
            units = tuple(self._unit(number, plan.settings) for number in numbers)
            yield Sample(condition="sampled", temperature=plan.settings.temperature, units=units)

    def _unit(self, number: int, settings: ServerSettings) -> Unit:
        (unit,) = self._units([number], settings)
        return unit

    def _units(self, numbers: Sequence[int], settings: ServerSettings) -> list[Unit]:
        """Send some prompts at once; return the answers with their counts of candidates.

        If the answers report rounds that agree with the counters, return a ``Unit`` for each
        answer. Otherwise return a single ``Unit`` that has all answers and the increase of the
        counters.
        """
        traces = self._traces(numbers, settings)
        texts = [self._text(*each) for each in zip(numbers, traces, strict=True)]
        counts = self._growth(sum(each.tokens for each in texts))
        self._check_totals(traces, counts)
        own = [_counts_of(each) for each in traces]
        if len(own) > 1 and _agree(total(own), counts):
            return [Unit(texts=(text,), counts=each) for text, each in zip(texts, own, strict=True)]
        return [Unit(texts=tuple(texts), counts=counts)]

    def _traces(self, numbers: Sequence[int], settings: ServerSettings) -> list[ServerTrace]:
        self._check_stop()
        self._parts.clear()  # forget the earlier answers, which are over
        answers = [
            self._begin(
                ask(
                    self._info, self._plan.prompts[number], settings, limits=_LIMITS,
                    allow_remote=self._allow_remote, key=SERVER_KEY,
                )
            )
            for number in numbers
        ]  # fmt: skip
        for answer in answers:
            for _ in answer:
                self._check_stop()
            self._check_stop()
            self.done += 1
        return [answer.trace() for answer in answers]

    def _text(self, number: int, trace: ServerTrace) -> EngineText:
        if not (tokens := trace.reported_tokens):
            raise ServerError(
                f"{self._info.address} does not report how many tokens its answers have.",
                remedy="Compare an engine that reports this, such as vLLM or llama.cpp.",
            )
        ids = trace.token_ids
        return EngineText(
            number=number,
            prompt=trace.prompt,
            text=trace.text,
            token_ids=ids if len(ids) == tokens else (),
            tokens=tokens,
            prompt_tokens=trace.prompt_tokens,
        )

    def _growth(self, tokens: int) -> Counts:
        """Wait until the engine has counted ``tokens`` more tokens; return the counters' growth."""
        assert self._before is not None
        before, end = self._before, time.monotonic() + _COUNTED_WITHIN
        while True:
            self._check_stop()
            after = self._read()
            if went_back(before, after):
                raise self._disagree("has counters that decreased, so it was restarted")
            grown = _grown(before.generated, after.generated)
            if grown >= tokens:
                break
            if time.monotonic() > end:
                raise self._disagree(f"counted {grown:,} of the {tokens:,} tokens that it sent")
            time.sleep(_EVERY)
        if grown > tokens:
            raise self._disagree(
                f"counted {grown:,} tokens, but sent {tokens:,}: it also serves other requests"
            )
        self._before = after
        return self._counts(before, after)

    def _counts(self, before: Counters, after: Counters) -> Counts:
        old = (*before.accepted_at, *(0.0 for _ in after.accepted_at))
        counts = Counts(
            drafts=_grown(before.drafts, after.drafts),
            drafted=_grown(before.drafted, after.drafted),
            accepted_at=tuple(
                int(new - each) for new, each in zip(after.accepted_at, old, strict=False)
            ),
        )
        if not counts.drafts:
            raise ServerError(
                f"{self._info.address} drafted no candidates for an answer.",
                remedy="Start the engine with its drafting head, or request more tokens.",
            )
        if counts.accepted != _grown(before.accepted, after.accepted):
            raise self._disagree("counts different numbers of candidates by position and in total")
        return counts

    def _check_totals(self, traces: Sequence[ServerTrace], counts: Counts) -> None:
        """Raise ServerError if the counters differ from the totals that the answers report.

        A total that an answer does not report is not checked.
        """
        for what, grown in (("drafted", counts.drafted), ("accepted", counts.accepted)):
            reported = [getattr(each.totals, what) for each in traces]
            if None not in reported and sum(reported) != grown:
                raise self._disagree(
                    f"counted {grown:,} {what} candidates, but its answers report "
                    f"{sum(reported):,}: it also serves other requests"
                )

    def _read(self) -> Counters:
        found = read_counters(self._info, allow_remote=self._allow_remote)
        counted = (found.generated, found.drafts, found.drafted, found.accepted)
        if self.done and None in counted:  # some counters appear with the first answer
            raise ServerError(
                f"{self._info.title} at {self._info.address} does not count candidates.",
                remedy="Compare an engine that counts candidates, such as vLLM or llama.cpp.",
            )
        if found.accepted and not found.accepted_at:
            raise ServerError(
                f"{self._info.title} at {self._info.address} does not count accepted candidates by "
                "position.",
                remedy="Compare an engine that counts by position, such as vLLM or llama.cpp.",
            )
        return found

    def _gamma(self, counts: Sequence[Counts]) -> int:
        """Return γ: the largest number of candidates per round that is reported or counted."""
        drafted = max(-(-each.drafted // each.drafts) for each in counts)
        gamma = max(drafted, self._info.gamma or 0, *(len(each.accepted_at) for each in counts))
        if gamma > MAX_GAMMA:
            raise ServerError(
                f"{self._info.address} drafts {gamma} candidates per round.",
                remedy=f"Compare an engine that drafts at most {MAX_GAMMA}.",
            )
        return gamma

    def _disagree(self, what: str) -> ServerError:
        return ServerError(
            f"{self._info.address} {what}.",
            remedy="Compare an engine that no other client uses during the measurement.",
        )


def _counts_of(trace: ServerTrace) -> Counts:
    """Return the sums of drafted and accepted candidates in one answer, from its rounds."""
    rounds = [(each.drafted, each.accepted or 0) for each in trace.rounds if each.drafted]
    most = max((drafted for drafted, _ in rounds), default=0)
    return Counts(
        drafts=len(rounds),
        drafted=sum(drafted for drafted, _ in rounds),
        accepted_at=tuple(sum(accepted > place for _, accepted in rounds) for place in range(most)),
    )


def _agree(rounds: Counts, counters: Counts) -> bool:
    gamma = max(len(rounds.accepted_at), len(counters.accepted_at))
    return (rounds.drafts, rounds.drafted, rounds.padded(gamma)) == (
        counters.drafts,
        counters.drafted,
        counters.padded(gamma),
    )


def _groups(numbers: Sequence[int], size: int) -> list[list[int]]:
    """Divide the numbers into groups of at least ``size``."""
    count = len(numbers) // size
    return [list(numbers[begin::count]) for begin in range(count)]


def _grown(before: float | None, after: float | None) -> int:
    return int((after or 0.0) - (before or 0.0))

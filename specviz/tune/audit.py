"""The audit: proof that what a pair emits has the target's law, by a test that can fail.

Many short runs of the real loop, each with another seed, on prompts of every kind. Every token of
their first three rounds is tested against the laws of fresh passes over the prompt and the tokens
before it, which share no cache with the run. At the end, speculation at temperature 0 is held
against the ``generate`` of transformers. With a bug from ``record/breaks.py`` the same is done to
a loop that is broken on purpose.

A bug is found only if it changes the law of what is emitted, and only by the bets of
``theory/evalues.py``; so a report without an alarm says which bias it would have found.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from specviz.errors import ConfigError
from specviz.record.breaks import BREAKS, break_named
from specviz.record.numbers import PERCENT
from specviz.record.trace import ExtraKind, Round, RunConfig
from specviz.theory.evalues import Detectable, Emitted, EmittedLawTest, Place
from specviz.tune.greedy import GreedyCheck, GreedyDivergence, check_greedy
from specviz.tune.short_runs import audit_settings, contexts, fresh_logits, near, speculation

if TYPE_CHECKING:
    import torch

    from specviz.engine import Pair

LEVEL = 0.01  # the chance of a false alarm, however long one looks
ROUNDS = 3  # of each run
_PAUSE = 0.25  # seconds between reports
_MOST_RUNS = 1_000_000  # each with a seed of its own
_MOST_SEEDS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What is known so far. An alarm stays one; ``greedy`` comes at the end."""

    runs: int
    planned: int
    first_tokens: int  # tested, of the first rounds of all runs
    accepted: int  # of these
    recovered: int
    bonus: int
    alpha: float | None  # accepted over tested candidates, where that means something
    e_value: float  # natural logarithm of the largest so far; infinite for a forbidden token
    p_value: float
    level: float
    alarm_at: int | None  # the run, from 1
    detectable: Detectable | None
    temperature: float
    broken: str | None
    greedy: GreedyCheck | None

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    @property
    def passes(self) -> bool:
        """No alarm, and nothing at temperature 0 but near ties."""
        return not self.alarm and (self.greedy is None or self.greedy.passes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What to audit: the settings, how many runs, and which bug to put in, if any."""

    config: RunConfig
    runs: int = 300
    broken: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, most in (("runs", _MOST_RUNS), ("seed", _MOST_SEEDS)):
            value, least = getattr(self, name), int(name == "runs")
            if not least <= value <= most:
                raise ConfigError(
                    f"{name} is {value}.",
                    remedy=f"Give a whole number from {least} to {most:,}.",
                )
        if not self.config.exact:
            raise ConfigError(
                f"rule={self.config.rule} does not keep the target's law, and says so.",
                remedy="Audit a rule that does.",
            )
        if self.broken is not None:
            break_named(self.broken)
            if not (self.config.draft_method.needs_draft and self.config.by_odds):
                raise ConfigError(
                    "Bugs are put into a chain of the draft model that is judged token by token.",
                    remedy="Leave out the drafter, the rule, and several drafts.",
                )

    @property
    def label(self) -> str:
        return f"auditing with {self.broken} put in" if self.broken else "auditing"

    def find(self, pair: Pair) -> Iterator[AuditReport]:
        """A growing report, and at the end one with the check at temperature 0 in it."""
        report: AuditReport | None = None
        for report in self.tested(pair):
            yield report
        assert report is not None
        yield replace(report, greedy=check_greedy(pair, self.config, self.broken))

    def tested(self, pair: Pair) -> Iterator[AuditReport]:
        """The runs alone: a report at once when there is an alarm, at most four times a second
        otherwise, and after the last run."""
        findings = _Findings(self, pair)
        told, alarmed = time.monotonic(), False
        for number in range(self.runs):
            findings.add_run(number)
            if findings.alarmed > alarmed or time.monotonic() - told >= _PAUSE:
                yield findings.report()
                told, alarmed = time.monotonic(), findings.alarmed
        yield findings.report()


class _Findings:
    def __init__(self, audit: Audit, pair: Pair) -> None:
        self._audit = audit
        self._pair = pair
        self._settings = audit_settings(audit.config, ROUNDS * (audit.config.depth + 1))
        self._contexts = contexts(pair, self._settings)
        self._laws = _FreshLaws(pair, self._settings)
        self._test = EmittedLawTest(LEVEL)
        self._runs = self._accepted = self._tested = 0
        self._extras: Counter[ExtraKind] = Counter()
        self._alarm_at: int | None = None

    @property
    def alarmed(self) -> bool:
        return self._alarm_at is not None

    def add_run(self, number: int) -> None:
        context = self._contexts[number % len(self._contexts)]
        seed = self._audit.seed * _MOST_RUNS + number
        config = replace(self._settings, seed=seed)
        run = speculation(self._pair, context, config, self._audit.broken)
        rounds = list(islice(run, ROUNDS))
        self._test.observe(self._laws.emitted(context, rounds))
        self._count(rounds)
        if self._test.alarm and not self.alarmed:
            self._alarm_at = self._runs

    def _count(self, rounds: Sequence[Round]) -> None:
        self._runs += 1
        for entry in rounds:
            self._accepted += entry.num_accepted
            self._tested += entry.num_tested
            if entry.extra_kind is not None:
                self._extras[entry.extra_kind] += 1

    def report(self) -> AuditReport:
        return AuditReport(
            runs=self._runs,
            planned=self._audit.runs,
            first_tokens=self._test.tokens,
            accepted=self._accepted,
            recovered=self._extras["recovered"],
            bonus=self._extras["bonus"],
            alpha=self._accepted / self._tested
            if self._tested and self._settings.has_alpha
            else None,
            e_value=self._test.log_e,
            p_value=self._test.p_value,
            level=self._test.level,
            alarm_at=self._alarm_at,
            detectable=self._test.detectable(),
            temperature=self._settings.temperature,
            broken=self._audit.broken,
            greedy=None,
        )


class _FreshLaws:
    """The laws before each token of a run, from passes of their own."""

    def __init__(self, pair: Pair, settings: RunConfig) -> None:
        from specviz.engine.decoding.sampling import Sampler

        self._pair = pair
        self._sampler = Sampler(settings)
        self._slack = near(pair)
        self._slips_by_one = settings.top_p < 1.0

    def emitted(self, context: Sequence[int], rounds: Sequence[Round]) -> Emitted:
        tokens = [token for entry in rounds for token in entry.emitted]
        logits = fresh_logits(self._pair, self._pair.target_step, context, tokens)
        target = self._sampler.probs(logits)
        return Emitted(
            tokens=tokens,
            target=target.cpu().numpy(),
            draft=self._draft(context, tokens, target).cpu().numpy(),
            places=[place for each in zip([None, *rounds], rounds, strict=False)
                    for place in _places(*each)],
            possible=self._possible(logits, target).cpu().numpy(),
        )  # fmt: skip

    def _draft(
        self, context: Sequence[int], tokens: Sequence[int], target: torch.Tensor
    ) -> torch.Tensor:
        """Only the choice of bets depends on it: without a draft all tokens are alike."""
        if self._pair.draft is None:
            return target.new_full(target.shape, 1.0 / target.shape[-1])
        logits = fresh_logits(self._pair, self._pair.draft_step, context, tokens)
        return self._sampler.probs(logits)

    def _possible(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """What has a chance, or would have one if the logits were rounded otherwise."""
        kept = target > 0.0
        lowest = logits.masked_fill(~kept, float("inf")).amin(-1, keepdim=True)
        if self._slips_by_one:  # the share of top-p may be reached a token later
            left_out = logits.masked_fill(kept, float("-inf")).amax(-1, keepdim=True)
            lowest = left_out.minimum(lowest)
        return kept | (logits >= lowest - self._slack)


def _places(before: Round | None, entry: Round) -> list[Place]:
    """What was decided before each token of a round."""
    first: Place = "start"
    if before is not None and before.extra_kind == "recovered":
        first = "after a rejection"
    later: list[Place] = ["after an acceptance"] * (entry.num_drafted - 1)
    whole: list[Place] = [first, *later, "bonus"] if entry.num_drafted else ["bonus"]
    return whole[: len(entry.emitted)]


def sentences(report: AuditReport) -> tuple[str, ...]:
    """The verdict first, then whether the loop is broken on purpose, then what it rests on."""
    parts = (_verdict(report), _bug(report), _power(report), _counts(report), _greedy(report))
    return tuple(part for part in parts if part)


def _verdict(report: AuditReport) -> str:
    if report.alarm:
        return (
            f"Alarm at run {report.alarm_at:,}: what is emitted does not have the target's law. "
            f"{_surprise(report)}"
        )
    found = f"deviation found in {report.first_tokens:,} tokens (p = {report.p_value:.3g})."
    if report.passes:
        return f"No {found}"
    return f"A bug: at temperature 0 the text is not that of the target alone. Otherwise no {found}"


def _surprise(report: AuditReport) -> str:
    if report.p_value == 0.0:
        return "The target cannot have written one of the tokens."
    return (
        f"If it had, evidence so strong would come up in at most {_rare(report.p_value)} audits, "
        "however long they go on."
    )


def _rare(share: float) -> str:
    return "one of a billion" if share < 1e-9 else f"one of {int(1 / share):,}"


def _power(report: AuditReport) -> str:
    if report.alarm:
        return ""
    if report.temperature == 0.0:
        return "At temperature 0 a single token that is not the target's own would have alarmed."
    if report.detectable is None:
        return "So few tokens would not have shown any bias but a token that the target forbids."
    return (
        f"By now an alarm was to be expected if {report.detectable.tokens}, taken together, were "
        f"written too often or too seldom by {100 * report.detectable.bias:.1f} percentage points "
        "everywhere; a smaller bias may have gone unseen."
    )


def _counts(report: AuditReport) -> str:
    stood = (
        ""
        if report.alpha is None
        else f"; of the tested candidates {PERCENT.shown(report.alpha)} stood"
    )
    return (
        f"{report.runs:,} of {report.planned:,} runs: {report.accepted:,} accepted, "
        f"{report.recovered:,} recovered and {report.bonus:,} bonus tokens{stood}."
    )


def _greedy(report: AuditReport) -> str:
    check = report.greedy
    if check is None:
        return ""
    if check.divergence is None:
        return (
            f"At temperature 0 all {check.tokens:,} tokens of {check.prompts} texts are those of "
            "the target alone."
        )
    return _divergence_words(check.divergence)


def _divergence_words(found: GreedyDivergence) -> str:
    cause = "that is a bug"
    if found.word == "near tie":
        cause = "that is a near tie, which rounding decides"
    return (
        f"At temperature 0 token {found.place + 1} is {found.token!r} where the target alone says "
        f"{found.expected!r}. Its two best logits are {found.margin:.2g} apart there: {cause}."
    )


def _bug(report: AuditReport) -> str:
    if report.broken is None:
        return ""
    known = BREAKS[report.broken]
    return f"The loop is broken on purpose ({known.name}). {known.does} It costs {known.costs}."

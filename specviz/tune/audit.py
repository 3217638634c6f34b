"""The audit: a statistical test that a pair emits the target's distribution.

The speculative loop runs many times with different seeds on prompts of every kind. Every token of
the first three rounds is tested against the target's distribution from a separate pass, which
shares no KV cache with the run. At the end, speculation at temperature 0 is compared with
``generate`` of transformers. A loop with an injected bug (``record/breaks.py``) is tested in the
same way.

The test (``theory/evalues.py``) needs more tokens to find a small bias than a large one. So a
report without an alarm states how large a bias would have been found by now. A bug that leaves the
output's distribution unchanged is not found.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from specviz.errors import ConfigError
from specviz.record.breaks import BREAKS, break_named
from specviz.record.numbers import PERCENT
from specviz.record.trace import ExtraKind, Round, RunConfig
from specviz.theory.evalues import Detectable, Emitted, EmittedDistributionTest, Place
from specviz.tune.greedy import GreedyCheck, GreedyDivergence, check_greedy
from specviz.tune.short_runs import (
    audit_settings,
    contexts,
    fresh_logits,
    logit_tolerance,
    speculation,
)
from specviz.values import Value

if TYPE_CHECKING:
    import torch

    from specviz.engine import Pair

LEVEL = 0.01  # probability of a false alarm, however long the audit runs
ROUNDS = 3  # tested in each run
_PAUSE = 0.25  # least seconds between reports
_MOST_RUNS = 1_000_000  # each with a seed of its own
_MOST_SEEDS = 10**12


class AuditReport(Value):
    """An audit's result so far. An alarm is never withdrawn.

    ``greedy``: the result of the check at temperature 0. This check is the audit's last step;
    until it is done, ``greedy`` is None.
    """

    runs: int
    planned: int
    first_tokens: int  # tested tokens, in the first rounds of all runs
    accepted: int  # accepted candidates among these tokens
    recovered: int
    bonus: int
    alpha: float | None  # accepted / tested candidates; None for methods without α
    e_value: float  # log of the largest e-value so far; infinite for an impossible token
    p_value: float
    level: float
    alarm_at: int | None  # the run that raised the alarm, counted from 1
    detectable: Detectable | None
    temperature: float
    broken: str | None
    greedy: GreedyCheck | None

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    @property
    def passes(self) -> bool:
        """Return whether there is no alarm and every difference at temperature 0 is a near tie."""
        return not self.alarm and (self.greedy is None or self.greedy.passes)


class Audit(Value):
    """The settings to audit, the number of runs, and the bug to inject, if any."""

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
                f"rule={self.config.rule} is not lossless.",
                remedy="Audit a lossless rule.",
            )
        if self.broken is not None:
            break_named(self.broken)
            if not (self.config.draft_method.needs_draft and self.config.by_odds):
                raise ConfigError(
                    "Bugs can be injected only into runs in which the draft model drafts one chain "
                    "per round, verified token by token.",
                    remedy="Remove the options for drafter, rule, several drafts and trees.",
                )

    @property
    def label(self) -> str:
        return f"auditing with bug {self.broken}" if self.broken else "auditing"

    def find(self, pair: Pair) -> Iterator[AuditReport]:
        """Make the runs and yield reports; the last report includes the check at temperature 0."""
        report: AuditReport | None = None
        for report in self.tested(pair):
            yield report
        assert report is not None
        yield replace(report, greedy=check_greedy(pair, self.config, self.broken))

    def tested(self, pair: Pair) -> Iterator[AuditReport]:
        """Yield reports of the runs, without the check at temperature 0.

        A report comes at an alarm, after the last run, and otherwise at most four times a second.
        """
        findings = _Findings(self, pair)
        reported, alarmed = time.monotonic(), False
        for number in range(self.runs):
            findings.add_run(number)
            if findings.alarmed > alarmed or time.monotonic() - reported >= _PAUSE:
                yield findings.report()
                reported, alarmed = time.monotonic(), findings.alarmed
        yield findings.report()


class _Findings:
    def __init__(self, audit: Audit, pair: Pair) -> None:
        self._audit = audit
        self._pair = pair
        self._settings = audit_settings(audit.config, ROUNDS * (audit.config.depth + 1))
        self._contexts = contexts(pair, self._settings)
        self._distributions = _FreshDistributions(pair, self._settings)
        self._test = EmittedDistributionTest(LEVEL)
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
        self._test.observe(self._distributions.emitted(context, rounds))
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


class _FreshDistributions:
    """Both models' distributions at each token, recomputed without the run's KV caches."""

    def __init__(self, pair: Pair, settings: RunConfig) -> None:
        from specviz.engine.decoding.sampling import Sampler

        self._pair = pair
        self._sampler = Sampler(settings)
        self._slack = logit_tolerance(pair)
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
            possible=self._possible_tokens(logits, target).cpu().numpy(),
        )  # fmt: skip

    def _draft(
        self, context: Sequence[int], tokens: Sequence[int], target: torch.Tensor
    ) -> torch.Tensor:
        """Return the draft's distributions; without a draft, return uniform distributions.

        The draft's distributions determine which tokens the test bets on. The rate of false alarms
        does not depend on these distributions.
        """
        if self._pair.draft is None:
            return target.new_full(target.shape, 1.0 / target.shape[-1])
        logits = fresh_logits(self._pair, self._pair.draft_step, context, tokens)
        return self._sampler.probs(logits)

    def _possible_tokens(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return a mask of the tokens with a positive probability.

        The mask includes tokens whose probability would be positive with other rounding.
        """
        kept = target > 0.0
        lowest = logits.masked_fill(~kept, float("inf")).amin(-1, keepdim=True)
        if self._slips_by_one:  # with other rounding, top-p may keep one more token
            left_out = logits.masked_fill(kept, float("-inf")).amax(-1, keepdim=True)
            lowest = left_out.minimum(lowest)
        return kept | (logits >= lowest - self._slack)


def _places(before: Round | None, entry: Round) -> list[Place]:
    """Return a group for each emitted token: "after a rejection", for example."""
    first: Place = "start"
    if before is not None and before.extra_kind == "recovered":
        first = "after a rejection"
    later: list[Place] = ["after an acceptance"] * (entry.num_drafted - 1)
    whole: list[Place] = [first, *later, "bonus"] if entry.num_drafted else ["bonus"]
    return whole[: len(entry.emitted)]


def sentences(report: AuditReport) -> tuple[str, ...]:
    """Return the verdict, the injected bug if any, and the evidence."""
    parts = (_verdict(report), _bug(report), _power(report), _counts(report), _greedy(report))
    return tuple(part for part in parts if part)


def _verdict(report: AuditReport) -> str:
    if report.alarm:
        return (
            f"Alarm at run {report.alarm_at:,}: the output does not follow the target's "
            f"distribution. {_evidence(report)}"
        )
    found = f"deviation found in {report.first_tokens:,} tokens (p = {report.p_value:.3g})."
    if report.passes:
        return f"No {found}"
    return (
        "A bug: at temperature 0 the text differs from the text of the target alone. "
        f"Apart from this, no {found}"
    )


def _evidence(report: AuditReport) -> str:
    if report.p_value == 0.0:
        return "One of the tokens has probability 0 under the target."
    return (
        "For a lossless loop, evidence this strong would appear in at most "
        f"{_one_in(report.p_value)} audits, however long they run."
    )


def _one_in(share: float) -> str:
    return "one in a billion" if share < 1e-9 else f"one in {int(1 / share):,}"


def _power(report: AuditReport) -> str:
    if report.alarm:
        return ""
    if report.temperature == 0.0:
        return "At temperature 0 a single wrong token would have raised an alarm."
    if report.detectable is None:
        return "With so few tokens, only a token that the target never writes would be detected."
    return (
        f"If {report.detectable.tokens}, taken together, were emitted "
        f"{100 * report.detectable.bias:.1f} percentage points too often or too rarely at every "
        "position, an alarm would be expected by now. A smaller bias may go undetected."
    )


def _counts(report: AuditReport) -> str:
    alpha = (
        ""
        if report.alpha is None
        else f"; {PERCENT.shown(report.alpha)} of the tested candidates were accepted"
    )
    return (
        f"{report.runs:,} of {report.planned:,} runs: {report.accepted:,} accepted, "
        f"{report.recovered:,} recovered and {report.bonus:,} bonus tokens{alpha}."
    )


def _greedy(report: AuditReport) -> str:
    check = report.greedy
    if check is None:
        return ""
    if check.divergence is None:
        return (
            f"At temperature 0 all {check.tokens:,} tokens of {check.prompts} texts are identical "
            "to those of the target alone."
        )
    return _divergence_words(check.divergence)


def _divergence_words(found: GreedyDivergence) -> str:
    cause = "a bug"
    if found.word == "near tie":
        cause = "a near tie, decided by rounding"
    return (
        f"At temperature 0, token {found.place + 1} of a text is {found.token!r}, but the target "
        f"alone writes {found.expected!r}. The target's two highest logits differ by "
        f"{found.margin:.2g} at this position. The cause is {cause}."
    )


def _bug(report: AuditReport) -> str:
    if report.broken is None:
        return ""
    known = BREAKS[report.broken]
    return (
        f"The loop is broken on purpose ({known.name}). {known.does} The bug affects {known.costs}."
    )

"""The trace of a run: its settings, its rounds and everything recorded about it.

Glossary
--------
draft, target     the two models
round             one draft phase, one target pass, the verdicts
candidate         a drafted token; its verdict is *accepted*, *rejected* (failed its test; at most
                  one candidate of a chain fails, among siblings several can), *cut* (block
                  verification: after the last accepted candidate of the block) or *discarded*
                  (never tested, because it comes after a rejected candidate or after the end, or
                  because a sibling was accepted)
fork              a run that continues from an overruled verdict of another run
recovered         the token sampled from max(0, target - draft) after a rejection
bonus             the extra token from the target when every candidate was accepted
gamma             candidates drafted per round
uniform           the number in [0, 1) that decided a verdict or a draw
odds              min(1, target/draft) at a drafted token
expected          the acceptance probability before the token was drawn: sum of
acceptance        min(draft, target); with over-acceptance, sum of min(draft, target + epsilon)
overlap           sum of min(draft, target) whatever the rule; 1 - overlap is the distance (total
                  variation) of draft and target
bias              distance between the distribution of the token emitted at a tested position and
                  the target
tau               tokens emitted per round, over whole rounds
cut round         a round shortened by the end of the text, a stop string or a limit;
                  tau, token counts and times leave it out

Under rules that decide by odds, a candidate is accepted exactly if
``uniform * draft_prob < target_prob`` (the over-acceptance rule adds epsilon on the right), on the
recorded values, in double precision. Probabilities are float32 and uniforms multiples of 2**-24, so
the product is exact and a verdict can be replayed by hand. After rejected siblings, both
probabilities come from the distributions that remain. Block verification accepts all candidates up
to the last one with ``uniform < coin``. If a rule compares candidates with a token that the target
samples, ``rival`` is that token; a candidate equal to it is accepted.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from specviz.record.bodies import BodyInfo, sized_model
from specviz.record.conversations import Message
from specviz.record.heads import HeadInfo
from specviz.record.numbers import COUNT
from specviz.record.pairs import weights_title
from specviz.record.run_config import RunConfig, settings_words
from specviz.record.run_facts import RunFacts
from specviz.record.step_costs import StepCosts
from specviz.values import Value

Verdict = Literal["accepted", "rejected", "cut", "discarded"]
ExtraKind = Literal["recovered", "bonus"]
CutReason = Literal["eos", "stop", "length", "context"]
Finish = Literal["eos", "stop", "length", "context", "stopped"]

TOP_ALTERNATIVES = 10
MAX_SLICES = 10_000  # maximum timed slices of a run
MAX_PASSES = 2  # maximum passes of a lane along one slice


class Alternatives(Value):
    """The most likely tokens of a distribution, most likely first."""

    token_ids: tuple[int, ...]
    texts: tuple[str, ...]
    probs: tuple[float, ...]


class Insight(Value):
    """The distributions of both models at one position.

    At temperature 0 the run uses one-hot distributions, which show no alternatives. In that case
    the insight holds the distributions at temperature 1, before top-k and top-p.
    """

    draft_prob: float  # of the candidate
    target_prob: float
    draft_entropy: float  # nats
    target_entropy: float
    draft_top: Alternatives
    target_top: Alternatives
    residual_top: Alternatives


class Rival(Value):
    """The token that the target sampled at a candidate's position."""

    token_id: int
    text: str
    target_prob: float
    noise: float | None = None  # exponential noise of the token, if both models share the noise
    margin: float | None = None  # noise / probability: runner-up over this token, minus 1


class Candidate(Value):
    """A drafted token and everything that decided its verdict."""

    token_id: int
    text: str
    verdict: Verdict
    draft_prob: float
    target_prob: float
    uniform: float
    expected_acceptance: float
    insight: Insight | None = None  # None with recording off
    # For lossy rules only. Lossless: overlap is the expected acceptance, bias is 0.
    overlap: float | None = None
    bias: float | None = None
    overruled: float | None = None  # the draw from the seed, if a fork replaced it
    parent: int | None = None  # in a tree, the index of the parent; -1 for children of the text
    joint: float | None = None  # block verification: the weight p_i
    coin: float | None = None  # block verification: h_i; tested with uniform < h_i
    noise: float | None = None  # exponential noise of the token, if both models share the noise
    rival: Rival | None = None  # the token that the target sampled, if it decides the verdict

    @property
    def odds(self) -> float:
        return min(1.0, self.target_prob / self.draft_prob)

    @property
    def tested(self) -> bool:
        return self.verdict in ("accepted", "rejected")


class Extra(Value):
    """The token after the accepted candidates, drawn from the residual or from the target."""

    token_id: int
    text: str
    kind: ExtraKind
    target_prob: float
    draft_prob: float | None  # the draft proposes nothing at a bonus position
    uniform: float
    noise: float | None = None  # exponential noise of the token, if both models share the noise
    outside: bool = False  # whether the head's vocabulary lacks the token


class RoundTimes(Value):
    """Wall-clock seconds of one round. ``decode`` does not include the time ``record``."""

    draft: float
    verify: float
    other: float
    record: float = 0.0

    @property
    def decode(self) -> float:
        return self.draft + self.verify + self.other


class Round(Value):
    """One draft phase, one target pass, the verdicts, and the emitted tokens."""

    index: int
    context_length: int  # tokens before the round, prompt included
    candidates: tuple[Candidate, ...]
    extra: Extra | None
    emitted: tuple[int, ...]
    cut: CutReason | None
    draft_catch_up: int  # tokens the first draft step was fed: for a model 1, or 2 after a bonus
    times: RoundTimes

    @property
    def extra_kind(self) -> ExtraKind | None:
        return self.extra.kind if self.extra else None

    @property
    def num_drafted(self) -> int:
        return len(self.candidates)

    @property
    def num_accepted(self) -> int:
        return sum(candidate.verdict == "accepted" for candidate in self.candidates)

    @property
    def num_tested(self) -> int:
        return sum(candidate.tested for candidate in self.candidates)

    @property
    def whole(self) -> bool:
        return self.cut is None


class ModelInfo(Value):
    """One model of the pair, with the facts that are needed to load it again."""

    name: str
    family: str
    parameters: int  # with a body, those of the enlarged model
    weights_sha256: str  # of the files and of how the weights are quantised, not of the body
    step: Literal["library", "lean", "graphed"]
    body: BodyInfo | None = None
    weights: str = ""  # types of quantised weights, such as "Q4_1"; empty for other weights
    weights_option: str = "auto"  # as in ``PairSpec``
    head: HeadInfo | None = None  # if the model is a drafting head


class PairInfo(Value):
    name: str
    target: ModelInfo
    draft: ModelInfo | None  # None if no model drafts
    vocabulary: int
    shared_tokens: int | None = None  # tokens in both vocabularies, if they differ
    texts_sha256: str | None = None  # of the texts given for suffix lookup

    @property
    def bodies(self) -> dict[str, BodyInfo]:
        """The simulated sizes by role, "target" or "draft"; models at real size are left out."""
        models = {"target": self.target, "draft": self.draft}
        return {role: each.body for role, each in models.items() if each and each.body}

    @property
    def has_bodies(self) -> bool:
        return bool(self.bodies)

    @property
    def body_sizes(self) -> str:
        """Text such as "target simulates the cost of an 88 M model"; empty at the real sizes."""
        models = {r: sized_model(COUNT.shown(b.parameters)) for r, b in self.bodies.items()}
        return ", ".join(f"{role} simulates the cost of {model}" for role, model in models.items())

    @property
    def chosen_weights(self) -> str:
        """The chosen weight types, such as "target in Q8_0"; empty if all are as stored."""
        draft = self.draft.weights_option if self.draft else "auto"
        return weights_title(self.target.weights_option, draft)


KERNEL_COMPILER = "numba"  # among the versions of an environment


class Environment(Value):
    """Where a run was measured.

    ``place`` is an anonymous id of the device if several devices share the runs of a plan; it is
    empty if one machine makes all runs.
    """

    device: str
    device_name: str
    dtype: str
    threads: int
    cpu: str
    versions: dict[str, str]
    place: str = ""

    @property
    def machine(self) -> str:
        """The device, with the number of threads if it is above 1."""
        device = self.cpu if self.device == "cpu" else self.device_name
        return f"{device}, {self.threads} threads" if self.threads > 1 else device

    @property
    def has_kernels(self) -> bool:
        """Whether kernels could be used; they could not while they were still being compiled."""
        return KERNEL_COMPILER in self.versions


class Prompt(Value):
    text: str
    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    kind: str | None = None  # the kind of a shipped prompt
    before: tuple[Message, ...] = ()  # the earlier messages of a conversation


class Prefill(Value):
    """Seconds of the prefill of each model."""

    target: float
    draft: float
    copied: int = 0  # prompt tokens already in the KV caches, from earlier messages


class Forecast(Value):
    """A predicted speedup, from step costs and the acceptance on other texts of the prompt's kind.

    ``low`` and ``high`` are the 95 % prediction interval of the observed speedup. The interval
    covers the spread between texts, the randomness of the draws, the errors of the step costs, and
    the error of the timing.
    """

    speedup: float
    tau: float
    kind: str
    num_texts: int
    low: float | None = None  # None if the spread or an error is unknown
    high: float | None = None
    from_text: float | None = None  # share of the squared width that texts and draws cause


class PhaseTimes(Value):
    """Mean seconds of each phase, over similar rounds in one timed part of a run.

    Similar rounds have the same number of candidates and the same number of tokens in the first
    draft step.
    """

    candidates: int
    fed: int  # tokens of the first draft step: 1, or 2 after a bonus
    rounds: int
    draft: float
    verify: float
    other: float


class Slice(Value):
    """The times of some consecutive rounds of a run, with the target alone and with speculation.

    The rounds are ``first`` to ``last`` (exclusive). Their tokens were decoded four times, in this
    order: target alone, speculative, speculative, target alone. Times are in seconds.
    """

    first: int
    last: int
    target: tuple[float, ...]
    speculative: tuple[float, ...]
    phases: tuple[PhaseTimes, ...] = ()  # of the speculative passes


class Conditions(Value):
    """The state of the machine during timing. Values that the machine does not report are None."""

    others: float | None = None  # share of all processors' time used by other processes
    clock: float | None = None  # mean clock / maximum clock
    on_battery: bool | None = None


class Baseline(Value):
    """The times of the target alone and of speculation along the same tokens, part by part."""

    slices: tuple[Slice, ...]
    prefill: float  # of the target alone
    conditions: Conditions | None = None


class DraftingCosts(Value):
    """Step costs in target steps, by which ``draft_until=cost`` decides when to stop drafting.

    ``verify[n - 1]`` is the cost to verify n tokens.
    """

    draft_first: float
    draft_next: float
    verify: tuple[float, ...]


class Trace(Value):
    """A whole run: settings, environment, every round, and the baseline."""

    config: RunConfig
    pair: PairInfo
    environment: Environment
    prompt: Prompt
    prefill: Prefill
    rounds: tuple[Round, ...]
    text: str
    finish: Finish
    created: str  # ISO 8601, UTC
    step_costs: StepCosts | None = None
    forecast: Forecast | None = None
    baseline: Baseline | None = None
    notices: tuple[str, ...] = field(default=())
    # Hex bytes by token id, for tokens that are not whole characters. They cover the run's tokens,
    # or the whole vocabulary if the run was stopped.
    pieces: dict[str, str] = field(default_factory=dict[str, str])
    # min(1, draft/target) at every token of the text, scored along that text. Empty for stopped or
    # forked runs, rules other than lossless, several drafts, trees, and without a draft model.
    odds: tuple[float, ...] = ()
    drafting_costs: DraftingCosts | None = None

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token for entry in self.rounds for token in entry.emitted)

    @property
    def facts(self) -> RunFacts:
        config, where, sizes = self.config, self.environment, self.pair.body_sizes
        return RunFacts(
            name=self.pair.name,
            engine=None,
            place=where.machine,
            environment=(where.machine, where.dtype),
            settings=(*settings_words(config), *([sizes] if sizes else [])),
            prompt=self.prompt.text,
            prompt_ids=self.prompt.token_ids,
            gamma=config.gamma,
            temperature=config.temperature,
            seed=config.seed,
            num_tokens=len(self.token_ids),
        )

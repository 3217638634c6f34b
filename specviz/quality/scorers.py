"""Scorers: studies that give every text a number, the higher the better under that scorer.

*likelihood*: the mean log-likelihood of the text's tokens under the target, or under another model.
It rewards low entropy, so a difference is called a shift of the likelihood, never quality.
*reward*: a reward model's score of prompt and text. *distance*: minus the mean bias of the text's
tokens, as recorded: their total variation distance to the target's next-token distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from specviz.errors import ConfigError
from specviz.local_models.naming import with_places
from specviz.record.conversations import Conversation, Message, TypedPrompt
from specviz.record.pairs import PairSpec
from specviz.record.trace import Trace
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

Measure = Literal["likelihood", "reward", "distance", "judge"]
# What a win says, by measure; only a reward model and a judge rate quality.
PREFERRED: dict[Measure, str] = {
    "likelihood": "have the higher likelihood in",
    "reward": "score higher in",
    "distance": "deviate less from the target in",
    "judge": "are preferred in",
}


class AnswerText(Value):
    """A text to score, with the prompt that it answers; without the token that ends it."""

    prompt: TypedPrompt
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    chat: bool


class LikelihoodStudy(Value):
    """Yields the mean log-likelihood of each text in nats per token, at temperature 1.

    ``own``: the scoring model has written the texts, so their tokens are known. Another model reads
    the text with its own tokenizer.
    """

    texts: tuple[AnswerText, ...]
    own: bool
    label: str = "scoring the texts"

    def find(self, pair: Pair) -> Iterator[float]:
        from specviz.engine.decoding.scoring import log_probs_of

        for log_probs in log_probs_of(pair, [self._ids(pair, each) for each in self.texts]):
            yield float(log_probs.double().mean())

    def _ids(self, pair: Pair, each: AnswerText) -> tuple[Sequence[int], Sequence[int]]:
        if self.own:
            return each.prompt_ids, each.token_ids
        from specviz.engine.model.chat import encode_prompt

        chat = each.chat and bool(getattr(pair.tokenizer, "chat_template", None))
        prompt = each.prompt if chat or isinstance(each.prompt, str) else each.prompt.text
        ids = list(pair.tokenizer(each.text, add_special_tokens=False)["input_ids"])
        return encode_prompt(pair, prompt, chat=chat), ids or [*pair.eos_ids][:1]


class RewardStudy(Value):
    """Yields a reward model's score of each text.

    ``model``: a folder or a name on the Hub, with the architecture of a sequence classifier that
    has one output. With a chat template, it reads a conversation; else prompt and text as two
    segments.
    """

    texts: tuple[AnswerText, ...]
    model: str
    label: str = "scoring the texts with the reward model"

    def find(self, pair: Pair) -> Iterator[float]:
        from specviz.engine.loading.reward_model import load_reward_model

        model = load_reward_model(self.model, pair.device)
        for each in self.texts:
            yield model.score(plain(each.prompt), each.text, _messages(each))


def _messages(each: AnswerText) -> list[Message]:
    asked = each.prompt
    if isinstance(asked, str):
        asked = Conversation(before=(), text=asked)
    return [*asked.messages, Message(role="assistant", content=each.text)]


def plain(prompt: TypedPrompt) -> str:
    """Return the prompt as one text, a conversation with a line for each role."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{each.role}: {each.content}" for each in prompt.messages)


def recorded_distance(trace: Trace) -> float | None:
    """Return the mean bias over the tested candidates and bonus tokens, which have none.

    None if the run was not recorded.
    """
    biases = list[float]()
    for entry in trace.rounds:
        for candidate in entry.candidates:
            if candidate.tested:
                if candidate.bias is None and trace.config.judging.exact is False:
                    return None
                biases.append(candidate.bias or 0.0)
        if entry.extra and entry.extra.kind == "bonus":
            biases.append(0.0)
    return fmean(biases) if biases else None


def scorer_named(text: str) -> tuple[Measure, str]:
    """Read a scorer as typed: *likelihood*, *distance*, *model:NAME*, *reward:NAME*, *judge:URL*.

    Returns the measure and the name of the model or the address; "" for the target itself.
    """
    kind, colon, name = text.partition(":")
    measures: dict[str, Measure] = {"model": "likelihood", "reward": "reward", "judge": "judge"}
    if text in ("likelihood", "distance"):
        return text, ""
    if kind in measures and colon and name.strip():
        return measures[kind], name.strip()
    raise ConfigError(
        f"There is no scorer {text[:60]!r}.",
        remedy="Give likelihood, distance, model:NAME, reward:NAME or judge:ADDRESS.",
    )


def study_of(
    measure: Measure, name: str, texts: Sequence[AnswerText], spec: PairSpec
) -> tuple[PairSpec, LikelihoodStudy | RewardStudy]:
    """Return the study that scores the texts, and the pair to load for it."""
    if measure == "reward":
        return spec, RewardStudy(texts=tuple(texts), model=name)
    if not name:
        return spec, LikelihoodStudy(texts=tuple(texts), own=True)
    other = PairSpec(target=name, device=spec.device, dtype=spec.dtype, threads=spec.threads)
    return with_places(other), LikelihoodStudy(texts=tuple(texts), own=False)

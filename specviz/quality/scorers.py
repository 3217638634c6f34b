"""Scorers: studies that give every text a score; a higher score is better.

*likelihood*: the mean log-likelihood of the text's tokens under the target, or under another model.
The likelihood rewards low entropy, so a difference is called a shift of the likelihood, never
quality. *reward*: a reward model's score of prompt and text. *distance*: minus the mean bias of the
text's tokens. The recorded bias of a token is the total variation distance between the rule's and
the target's next-token distributions.
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
    """A text to score, without its end token, and the prompt that the text answers."""

    prompt: TypedPrompt
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    chat: bool


class LikelihoodStudy(Value):
    """Yields the mean log-likelihood of each text in nats per token, at temperature 1.

    ``own``: whether the scoring model wrote the texts, so that their tokens are known. Any other
    model encodes the texts with its own tokenizer.
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

    ``model``: the folder or Hub name of a sequence classifier with one output. A model with a chat
    template reads a conversation; any other model reads prompt and text as two segments.
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
    """Return the prompt as one text; a conversation has a line for each message."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{each.role}: {each.content}" for each in prompt.messages)


def recorded_distance(trace: Trace) -> float | None:
    """Return the mean bias of a run's tested candidates and bonus tokens.

    A candidate's bias is the distance between the next-token distributions of the rule and of the
    target; a bonus token has bias 0. None if the run did not record the biases.
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
    """Parse *likelihood*, *distance*, *model:NAME*, *reward:NAME* or *judge:URL*.

    Return the measure, and the name of the model or the address; "" means the target itself.
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

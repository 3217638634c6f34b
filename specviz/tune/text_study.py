"""The study behind a surface: texts that the target writes, scored, and the costs of steps.

For each law and prompt there is one text. Where another candidate has the same target, its texts
are given, so that all are judged along the same words. Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specviz.errors import PromptError
from specviz.measure.loaded_pairs import RunMemory
from specviz.measure.step_costs import step_costs, stored_costs
from specviz.record.drafters import first_method
from specviz.record.prompts import SuiteItem
from specviz.record.scores import Law, ScoredText
from specviz.record.trace import PairInfo, Prompt, RunConfig, StepCosts

if TYPE_CHECKING:
    from specviz.engine import Pair

_WRITING_GAMMA = 4  # only how fast a text is written depends on it, not its law


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFound:
    """What the candidate is: its models, and the bytes that its weights take. None where it is
    served elsewhere."""

    info: PairInfo | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsFound:
    """Step costs under the sampling of some temperatures; None if there was no time for any."""

    temperatures: tuple[float, ...]
    costs: StepCosts | None


Found = PairFound | ScoredText | CostsFound


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStudy:
    """Yields what the pair is, costs that are stored, every scored text, costs measured now.

    ``config`` has the length, the seed and the way to speculate. ``written``: the tokens of the
    texts, in the order of laws and prompts, where another study has them. ``text``: words to be
    scored after each prompt in place of the target's own. ``costs``: whether step costs are wanted.
    """

    items: tuple[SuiteItem, ...]
    laws: tuple[Law, ...]
    config: RunConfig
    gammas: tuple[int, ...]
    text: str | None = None
    written: tuple[tuple[int, ...], ...] = ()
    costs: bool = True
    label: str = "scoring texts"

    def find(self, pair: Pair) -> Iterator[Found]:
        memory = RunMemory(pair, self.config).measured()
        yield PairFound(info=pair.info, memory_bytes=memory)
        groups = self._groups() if self.costs else []
        missing = list[tuple[float, ...]]()
        for group in groups:
            kept = stored_costs(pair, self._at(pair, group[0]))
            if kept is None:
                missing.append(group)
            else:
                yield CostsFound(temperatures=group, costs=kept)
        yield from self.texts(pair)
        for group in missing:
            made = step_costs(pair, self._at(pair, group[0]))
            yield CostsFound(temperatures=group, costs=made)

    def shares(self) -> tuple[TextStudy | Texts, ...]:
        """The pair and its costs; then every text by itself."""
        numbered = enumerate((law, item) for law in self.laws for item in self.items)
        each_text = (
            replace(self, laws=(law,), items=(item,), written=self.written[place : place + 1])
            for place, (law, item) in numbered
        )
        return (replace(self, items=(), written=()), *(Texts(study=each) for each in each_text))

    def texts(self, pair: Pair) -> Iterator[ScoredText]:
        numbered = iter(range(len(self.laws) * len(self.items)))
        for law in self.laws:
            for item in self.items:
                place = next(numbered)
                yield self._scored(pair, law, item, place)

    def _scored(self, pair: Pair, law: Law, item: SuiteItem, place: int) -> ScoredText:
        from specviz.engine.decoding.scoring import copied_rounds, score_text

        config = law.put_into(self.config)
        prompt_ids, token_ids = self._tokens(pair, config, item, place)
        ends = not config.ignore_eos and token_ids[-1] in pair.eos_ids
        scores, copied = None, ()
        if config.draft_method.has_steps:
            (found,) = score_text(pair, prompt_ids, token_ids, [config])
            scores = found.as_written() if self.text is None else found
        else:
            copied = copied_rounds(
                pair, prompt_ids, token_ids, self.gammas, ends=ends, drafter=config.drafter
            )
        table = pair.token_table
        return ScoredText(
            prompt=_prompt(pair, item, prompt_ids),
            law=law,
            token_ids=tuple(token_ids),
            token_texts=tuple(table.text(each) for each in token_ids),
            ends=ends,
            own=self.text is None,
            scores=scores,
            copied=copied,
            pieces=table.split(token_ids),
        )

    def _tokens(
        self, pair: Pair, config: RunConfig, item: SuiteItem, place: int
    ) -> tuple[list[int], Sequence[int]]:
        """The prompt's tokens and the text's."""
        from specviz.engine.model.chat import encode_prompt

        if self.text is not None:
            return _given(pair, item.prompt, self.text)
        prompt_ids = encode_prompt(pair, item.prompt, chat=config.chat)
        if self.written:
            return prompt_ids, self.written[place]
        return prompt_ids, written(pair, prompt_ids, replace(config, chat=False))

    def _groups(self) -> list[tuple[float, ...]]:
        """Temperatures that have their step costs in common: only greedy steps are others."""
        temperatures = [law.temperature for law in self.laws]
        parts = [tuple(t for t in temperatures if (t == 0) is greedy) for greedy in (False, True)]
        return [part for part in parts if part]

    def _at(self, pair: Pair, temperature: float) -> RunConfig:
        """The settings whose step costs are used: where the pair has a draft, those with it, so
        that candidates of one pair are judged by one table. An early exit has steps of its own."""
        drafter, method = self.config.drafter, self.config.draft_method
        if method.needs_draft or not method.has_steps:
            drafter = first_method(has_draft=pair.draft is not None).name
        return usual_method(replace(self.config, temperature=temperature), drafter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of a study, and nothing besides."""

    study: TextStudy

    @property
    def label(self) -> str:
        return self.study.label

    def find(self, pair: Pair) -> Iterator[ScoredText]:
        return self.study.texts(pair)


def usual_method(config: RunConfig, drafter: str) -> RunConfig:
    """One chain of γ candidates, judged token by token."""
    return replace(
        config, drafter=drafter, rule="lossless", num_drafts=1, replacement=True, branching=(),
        draft_until="count",
    )  # fmt: skip


def written(pair: Pair, prompt_ids: Sequence[int], config: RunConfig) -> Sequence[int]:
    """The target's own words. They have its law whoever drafts, so the faster way is taken."""
    from specviz.engine import decode_plainly, speculate

    if pair.draft is None:
        return tuple(decode_plainly(pair, prompt_ids, config))
    quick = replace(usual_method(config, "model"), gamma=_WRITING_GAMMA, record=False)
    return tuple(token for entry in speculate(pair, prompt_ids, quick) for token in entry.emitted)


def _given(pair: Pair, prompt: str, text: str) -> tuple[list[int], Sequence[int]]:
    """Given words; without a prompt their first token, which nothing comes before, is the prompt.

    They are tokenised together, as a model would read them.
    """
    from specviz.engine.model.chat import encode_prompt

    ids = encode_prompt(pair, prompt + text, chat=False)
    first = len(encode_prompt(pair, prompt, chat=False)) if prompt else 1
    context = pair.max_context
    if context is not None and len(ids) > context:
        raise PromptError(
            f"The text has {len(ids)} tokens with its prompt; the pair's context holds {context}.",
            remedy="Give a shorter text, or use a pair with a longer context.",
        )
    if len(ids) <= first:
        raise PromptError(
            "The text has a single token, which has nothing before it.",
            remedy="Give a longer text, or a prompt before it.",
        )
    return ids[:first], ids[first:]


def _prompt(pair: Pair, item: SuiteItem, prompt_ids: Sequence[int]) -> Prompt:
    from specviz.engine.decoding.speculative_run import describe_prompt

    return replace(describe_prompt(pair, item.prompt, prompt_ids), kind=item.kind)

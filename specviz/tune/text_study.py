"""The study for Tune's expected speedups: score texts of the target and measure step costs.

There is one text for each temperature and prompt; at the first temperature there may be several.
Candidates with the same target reuse its texts, so all are scored on the same tokens. Importing
this module does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specviz.errors import PromptError
from specviz.measure.answered_turns import with_answers
from specviz.measure.loaded_pairs import RunMemory
from specviz.measure.step_costs import step_costs, stored_costs
from specviz.record.conversations import Conversation
from specviz.record.drafters import first_method
from specviz.record.prompts import SuiteItem
from specviz.record.scores import SamplingParams, ScoredText
from specviz.record.trace import PairInfo, Prompt, RunConfig, StepCosts
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

_SEEDS = 2**63  # as many as a run allows
_WRITING_GAMMA = 4  # affects only how fast a text is written, not its distribution


class PairFound(Value):
    """A candidate's models and their memory. Both are None if a server runs the pair."""

    info: PairInfo | None
    memory_bytes: int | None


class CostsFound(Value):
    """Step costs at some temperatures; None if there was no time to measure them."""

    temperatures: tuple[float, ...]
    costs: StepCosts | None


Found = PairFound | ScoredText | CostsFound


class TextStudy(Value):
    """A study that scores texts of the target and finds step costs.

    It yields the pair first. Then it yields the stored step costs, the scored texts, and the step
    costs that it measured because they were not stored.

    ``config`` sets the length, the seed and the method. ``written``: the token ids of the texts to
    score, if another study wrote them already. They are ordered by sampling, prompt and
    continuation. ``continuations``: the number of texts for each prompt at the first sampling. If
    the first sampling is greedy, there is only one text. The first text has the configuration's
    seed plus ``first_continuation``; the seed of every next text is 1 higher. ``text``: a text to
    score after each prompt, instead of text that the target writes. ``costs``: whether to yield
    step costs.
    """

    items: tuple[SuiteItem, ...]
    samplings: tuple[SamplingParams, ...]
    config: RunConfig
    gammas: tuple[int, ...]
    text: str | None = None
    written: tuple[tuple[int, ...], ...] = ()
    continuations: int = 1
    first_continuation: int = 0
    costs: bool = True
    label: str = "scoring texts"

    def find(self, pair: Pair) -> Iterator[Found]:
        memory = RunMemory(pair, self.config).measured()
        yield PairFound(info=pair.info, memory_bytes=memory)
        groups = self._groups() if self.costs else []
        missing = list[tuple[float, ...]]()
        for group in groups:
            kept = stored_costs(pair, self._at(pair, group[0]), whole=True)
            if kept is None:
                missing.append(group)
            else:
                yield CostsFound(temperatures=group, costs=kept)
        yield from self.texts(pair)
        for group in missing:
            made = step_costs(pair, self._at(pair, group[0]))
            yield CostsFound(temperatures=group, costs=made)

    def shares(self) -> tuple[TextStudy | Texts, ...]:
        """Split the study into studies: one for the pair and its costs, and one for each text."""
        each_text = (
            replace(
                self,
                samplings=(sampling,),
                items=(item,),
                written=self.written[place : place + 1],
                continuations=1,
                first_continuation=number,
            )
            for place, (sampling, item, number) in enumerate(self.places())
        )
        return (replace(self, items=(), written=()), *(Texts(study=each) for each in each_text))

    def texts(self, pair: Pair) -> Iterator[ScoredText]:
        for place, (sampling, item, number) in enumerate(self.places()):
            config = sampling.put_into(self.config)
            seeded = replace(config, seed=(config.seed + number) % _SEEDS)
            yield self._scored(pair, sampling, seeded, item, place)

    def places(self) -> Iterator[tuple[SamplingParams, SuiteItem, int]]:
        """Yield each text's sampling, prompt, and number among the continuations of the prompt."""
        first = self.first_continuation
        for sampling in self.samplings:
            several = sampling == self.samplings[0] and sampling.temperature > 0
            count = self.continuations if several else 1
            for item in self.items:
                for number in range(first, first + count):
                    yield sampling, item, number

    def _scored(
        self, pair: Pair, sampling: SamplingParams, config: RunConfig, item: SuiteItem, place: int
    ) -> ScoredText:
        from specviz.engine.decoding.scoring import copied_rounds, score_text

        prompt_ids, token_ids = self._tokens(pair, config, item, place)
        ends = not config.ignore_eos and token_ids[-1] in pair.eos_ids
        scores, copied = None, ()
        if config.draft_method.needs_head:
            pass  # short runs measure its speed
        elif config.draft_method.has_steps:
            (found,) = score_text(pair, prompt_ids, token_ids, [config])
            scores = found.as_written() if self.text is None else found
        else:
            copied = copied_rounds(
                pair, prompt_ids, token_ids, self.gammas, ends=ends, drafter=config.drafter
            )
        table = pair.token_table
        return ScoredText(
            prompt=_prompt(pair, item, prompt_ids),
            sampling=sampling,
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
        """Return the token ids of the prompt, and the token ids of the text."""
        from specviz.engine.model.chat import encode_prompt

        if self.text is not None:
            return _given(pair, item.prompt, self.text)
        asked = item.whole
        if isinstance(asked, Conversation):
            asked = with_answers(pair, asked, config)
        prompt_ids = encode_prompt(pair, asked, chat=config.chat)
        if self.written:
            return prompt_ids, self.written[place]
        return prompt_ids, written(pair, prompt_ids, replace(config, chat=False))

    def _groups(self) -> list[tuple[float, ...]]:
        """Return the temperatures in groups that share step costs: all above 0, and 0 alone."""
        temperatures = [sampling.temperature for sampling in self.samplings]
        parts = [tuple(t for t in temperatures if (t == 0) is greedy) for greedy in (False, True)]
        return [part for part in parts if part]

    def _at(self, pair: Pair, temperature: float) -> RunConfig:
        """Return the settings that select the table of step costs at this temperature.

        All candidates of the pair share one table, except for early exit, which has a table of its
        own. If the pair has a draft, the shared table includes the draft's steps.
        """
        drafter, method = self.config.drafter, self.config.draft_method
        if method.needs_draft or not method.has_steps:
            drafter = first_method(pair.draft_kind).name
        return usual_method(replace(self.config, temperature=temperature), drafter)


class Texts(Value):
    """A study that yields only the texts of another study."""

    study: TextStudy

    @property
    def label(self) -> str:
        return self.study.label

    def find(self, pair: Pair) -> Iterator[ScoredText]:
        return self.study.texts(pair)

    def shares(self) -> tuple[TextStudy | Texts, ...]:
        """Return one study for each text."""
        return self.study.shares()[1:]


def usual_method(config: RunConfig, drafter: str) -> RunConfig:
    """Return ``config``, changed to one chain of γ candidates, verified token by token."""
    return replace(
        config, drafter=drafter, rule="lossless", num_drafts=1, replacement=True, branching=(),
        dynamic_tree=(), draft_until="count",
    )  # fmt: skip


def written(pair: Pair, prompt_ids: Sequence[int], config: RunConfig) -> Sequence[int]:
    """Return a text that the target writes, with speculation if the pair has a draft."""
    from specviz.engine import decode_plainly, speculate

    if pair.draft is None:
        return tuple(decode_plainly(pair, prompt_ids, config))
    fast = replace(usual_method(config, "model"), gamma=_WRITING_GAMMA, record=False)
    return tuple(token for entry in speculate(pair, prompt_ids, fast) for token in entry.emitted)


def _given(pair: Pair, prompt: str, text: str) -> tuple[list[int], Sequence[int]]:
    """Return the tokens of the prompt and of a given text, tokenized together.

    Without a prompt, the first token of the text is the prompt.
    """
    from specviz.engine.model.chat import encode_prompt

    ids = encode_prompt(pair, prompt + text, chat=False)
    first = len(encode_prompt(pair, prompt, chat=False)) if prompt else 1
    context = pair.max_context
    if context is not None and len(ids) > context:
        raise PromptError(
            f"Prompt and text have {len(ids)} tokens; the pair's context holds {context}.",
            remedy="Give a shorter text, or use a pair with a longer context.",
        )
    if len(ids) <= first:
        raise PromptError(
            "The text has a single token and no prompt before it.",
            remedy="Give a longer text, or a prompt.",
        )
    return ids[:first], ids[first:]


def _prompt(pair: Pair, item: SuiteItem, prompt_ids: Sequence[int]) -> Prompt:
    from specviz.engine.decoding.speculative_run import describe_prompt

    return replace(describe_prompt(pair, item.whole, prompt_ids), kind=item.kind)

"""Compare speculation at temperature 0 with the target alone, run by transformers.

Rounding can decide between tokens with almost equal logits. So the first difference between two
texts is either such a near tie or a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig
from specviz.tune import short_runs
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

GREEDY_TOKENS = 48  # of each text
_GREEDY_PROMPTS = 5


class GreedyDivergence(Value):
    """The first token at temperature 0 that differs from the target's own text."""

    prompt: int  # index of the tested prompt
    place: int  # index in the text
    token_id: int
    token: str
    expected_id: int
    expected: str
    margin: float  # difference between the target's two best logits there
    shortfall: float  # best logit minus the lower logit of the two tokens
    limit: float  # largest shortfall of a near tie; depends on the dtype

    @property
    def word(self) -> Literal["near tie", "a bug"]:
        return "near tie" if self.shortfall <= self.limit else "a bug"


class GreedyCheck(Value):
    """The result of comparing speculation at temperature 0 with ``generate`` of transformers."""

    prompts: int
    tokens: int
    divergence: GreedyDivergence | None  # the first bug, or else the first near tie

    @property
    def equal(self) -> bool:
        return self.divergence is None

    @property
    def passes(self) -> bool:
        return self.divergence is None or self.divergence.word == "near tie"


def check_greedy(pair: Pair, config: RunConfig, bug: str | None) -> GreedyCheck:
    """Compare speculation at temperature 0 with the target alone; inject ``bug`` if given."""
    settings = replace(
        short_runs.audit_settings(config, GREEDY_TOKENS), temperature=0.0, ignore_eos=True
    )
    presets = short_runs.contexts(pair, settings)[-len(read_presets()) :]  # the uncut prompts
    prompts = presets[:: len(presets) // _GREEDY_PROMPTS]
    found: list[GreedyDivergence] = []
    for number, context in enumerate(prompts):
        run = short_runs.speculation(pair, context, settings, bug)
        own = [token for entry in run for token in entry.emitted]
        expected = plain_text(pair, context, GREEDY_TOKENS)
        if own != expected:
            found.append(_divergence(pair, number, context, own, expected))
    found.sort(key=lambda each: each.word == "near tie")
    return GreedyCheck(
        prompts=len(prompts),
        tokens=len(prompts) * GREEDY_TOKENS,
        divergence=found[0] if found else None,
    )


def plain_text(pair: Pair, context: Sequence[int], num_tokens: int) -> list[int]:
    """Return ``num_tokens`` token ids, decoded greedily by ``generate`` of transformers.

    The model's own generation settings, such as penalties, are turned off. Ids that only pad the
    vocabulary are suppressed.
    """
    import torch
    from transformers import GenerationConfig

    from specviz.engine.model.plain_llama import in_transformers

    target: Any = in_transformers(pair.target)
    ids = torch.tensor([list(context)], device=pair.device)
    padding = list(range(pair.vocabulary, target.config.get_text_config().vocab_size))
    settings = GenerationConfig(pad_token_id=0, suppress_tokens=padding or None)
    own, target.generation_config = target.generation_config, settings
    try:
        with torch.inference_mode():
            output = target.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                use_cache=True,
                max_new_tokens=num_tokens,
            )
    finally:
        target.generation_config = own
    return output[0, len(context) :].tolist()


def _divergence(
    pair: Pair, number: int, context: Sequence[int], own: Sequence[int], expected: Sequence[int]
) -> GreedyDivergence:
    pairs = enumerate(zip(own, expected, strict=True))
    place = next(at for at, (ours, theirs) in pairs if ours != theirs)
    ours, theirs = own[place], expected[place]
    logits = short_runs.fresh_logits(pair, pair.target_step, context, expected[: place + 1])[-1]
    best, second = logits.topk(2).values.tolist()
    return GreedyDivergence(
        prompt=number,
        place=place,
        token_id=ours,
        token=pair.token_table.text(ours),
        expected_id=theirs,
        expected=pair.token_table.text(theirs),
        margin=best - second,
        shortfall=best - min(float(logits[ours]), float(logits[theirs])),
        limit=short_runs.logit_tolerance(pair),
    )

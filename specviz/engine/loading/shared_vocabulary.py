"""Check whether a draft with a different tokenizer shares enough tokens with the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.engine.loading.compatibility import (
    ModelVocabulary,
    context_limits,
    real_ids,
    same_tokens,
)
from specviz.engine.model.shared_tokens import (
    SharedTokens,
    TokenVocabulary,
    make_token_vocabulary,
    share_tokens,
)
from specviz.errors import PairError
from specviz.record.numbers import WHOLE_PERCENT
from specviz.record.prompts import read_presets

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Config


# The share of shared tokens in the target's text bounds α. Below this value, even a perfect draft
# that costs nothing emits fewer than 1/(1 - 0.5) = 2 tokens per round at any γ.
LEAST_SHARE = 0.5


def share_vocabulary(
    target: ModelVocabulary, draft: ModelVocabulary, draft_config: Config
) -> tuple[SharedTokens | None, tuple[str, ...]]:
    """Return the shared tokens and a notice; None and no notice if the tokenizers are equal.

    Raises:
        PairError: fewer than ``LEAST_SHARE`` of the target's tokens in a sample text are shared.
    """
    if same_tokens(target, draft):
        return None, ()
    context, _ = context_limits({draft.name: draft_config})
    shared = share_tokens(_token_vocabulary(target), _token_vocabulary(draft), context)
    covered = covered_share(shared)
    summary = (
        f"{shared.count:,} tokens are shared. These are {_share(shared.count, shared.target.size)} "
        f"of the target's {shared.target.size:,} tokens and "
        f"{_share(shared.count, shared.draft.size)} of the draft's {shared.draft.size:,}. They "
        f"cover {WHOLE_PERCENT.shown(covered)} of the target's tokens in a sample text."
    )
    if covered < LEAST_SHARE:
        raise PairError(
            f"{draft.name} and {target.name} have too little in common: {summary}",
            remedy="Choose a draft that shares at least half of the tokens in the sample text.",
        )
    return shared, (f"The tokenizers differ: {summary} The draft proposes only shared tokens.",)


def covered_share(shared: SharedTokens) -> float:
    """Return the fraction of the preset prompts' tokens that the draft has, too.

    The target's tokenizer encodes the prompts.
    """
    own = shared.target.tokenizer
    ids = [
        each
        for preset in read_presets()
        for each in own.encode(preset.text, add_special_tokens=False)
    ]
    return sum(each in shared.to_draft for each in ids) / max(1, len(ids))


def _token_vocabulary(model: ModelVocabulary) -> TokenVocabulary:
    return make_token_vocabulary(model.tokenizer, real_ids(model))


def _share(count: int, whole: int) -> str:
    return WHOLE_PERCENT.shown(count / whole)

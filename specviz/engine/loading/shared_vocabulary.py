"""Two tokenizers that differ: what they share, and whether a draft can do with it."""

from __future__ import annotations

from transformers import PreTrainedConfig

from specviz.engine.loading.compatibility import (
    ModelVocabulary,
    context_limits,
    real_ids,
    same_tokens,
)
from specviz.engine.model.shared_tokens import SharedTokens, Wording, make_wording, share_tokens
from specviz.errors import PairError
from specviz.record.numbers import WHOLE_PERCENT
from specviz.record.prompts import read_presets

# A draft is right at most as often as the target says a token that both have: with less than this,
# rounds of any length, of a draft that never errs and costs nothing, emit fewer than 1/(1 - 0.5)
# tokens on average.
LEAST_SHARE = 0.5


def share_vocabulary(
    target: ModelVocabulary, draft: ModelVocabulary, draft_config: PreTrainedConfig
) -> tuple[SharedTokens | None, tuple[str, ...]]:
    """What both have, and what to say of it; None where they are the same."""
    if same_tokens(target, draft):
        return None, ()
    context, _ = context_limits({draft.name: draft_config})
    shared = share_tokens(_wording(target), _wording(draft), context)
    said = said_share(shared)
    told = (
        f"{shared.count:,} tokens are shared, {_share(shared.count, shared.target.size)} of the "
        f"target's {shared.target.size:,}, {_share(shared.count, shared.draft.size)} of the "
        f"draft's {shared.draft.size:,}, and {WHOLE_PERCENT.shown(said)} of what the target says "
        "in a sample text."
    )
    if said < LEAST_SHARE:
        raise PairError(
            f"{draft.name} and {target.name} have too little in common: {told}",
            remedy="Choose a draft that knows at least half of what the target says.",
        )
    return shared, (f"The tokenizers differ: {told} The draft proposes no others.",)


def said_share(shared: SharedTokens) -> float:
    """Of the target's tokens in the prompts of the presets, those that the draft has."""
    own = shared.target.tokenizer
    ids = [
        each
        for preset in read_presets()
        for each in own.encode(preset.text, add_special_tokens=False)
    ]
    return sum(each in shared.to_draft for each in ids) / max(1, len(ids))


def _wording(model: ModelVocabulary) -> Wording:
    return make_wording(model.tokenizer, real_ids(model))


def _share(count: int, whole: int) -> str:
    return WHOLE_PERCENT.shown(count / whole)

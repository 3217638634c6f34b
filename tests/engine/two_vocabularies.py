"""Different tokenizers, and pairs of tiny models that use them."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from specviz.engine.loading.loading import load_pair
from specviz.engine.model.pair import Pair
from specviz.engine.model.shared_tokens import SharedTokens, make_token_vocabulary, share_tokens
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from tests.engine.models import build, noisy_copy, tiny_model, write_model

OTHER_END = "</s>"


def _text() -> list[str]:
    return [preset.text for preset in read_presets()]


def bytes_of(size: int, *, end: str, texts: list[str] | None = None) -> PreTrainedTokenizerFast:
    """A byte-level BPE of ``size`` ids, trained on the presets' prompts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[end], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts or _text(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end)


def pieces_of(size: int) -> PreTrainedTokenizerFast:
    """Like Llama's: a visible space before every word and the text, a begin mark, and byte tokens
    for what no piece covers."""
    marks = ["<unk>", "<s>", OTHER_END]
    spelt = [*marks, *(f"<0x{byte:02X}>" for byte in range(256))]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=spelt)
    trained.train_from_iterator(_text(), trainer)
    found = json.loads(trained.to_str())["model"]
    tokenizer = Tokenizer(
        models.BPE(
            found["vocab"], [tuple(each) for each in found["merges"]], unk_token="<unk>",
            byte_fallback=True, fuse_unk=True,
        )
    )  # fmt: skip
    tokenizer.pre_tokenizer = trained.pre_tokenizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(marks)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=OTHER_END, bos_token="<s>", unk_token="<unk>"
    )


@cache
def tokenizers() -> dict[str, PreTrainedTokenizerFast]:
    """Tokenizers of three sizes and two kinds."""
    return {
        "words": bytes_of(700, end="<|endoftext|>"),
        "other words": bytes_of(400, end=OTHER_END, texts=_text()[::2]),
        "pieces": pieces_of(600),
    }


def sharing(target: str, draft: str, *, draft_context: int | None = None) -> SharedTokens:
    own = tokenizers()
    ours, theirs = (make_token_vocabulary(own[each], len(own[each])) for each in (target, draft))
    return share_tokens(ours, theirs, draft_context)


def two_models(folder: Path, target: str, draft: str, **changes: int) -> Path:
    """Write a target and a related draft with different tokenizers; ``changes`` apply to the
    draft's configuration."""
    own = tokenizers()
    model = tiny_model(vocabulary=len(own[target]), eos_token_id=own[target].eos_token_id)
    write_model(folder / "target", model, own[target])
    write_model(folder / "draft", kin(model, sharing(target, draft), **changes), own[draft])
    return folder


def kin(target: PreTrainedModel, shared: SharedTokens, **changes: Any) -> PreTrainedModel:
    """The model in another vocabulary, with some noise: similar logits for shared tokens, arbitrary
    ones for others."""
    end = shared.draft.tokenizer.eos_token_id
    config = copy.deepcopy(target.config)
    for name, value in {"vocab_size": shared.draft.size, "eos_token_id": end, **changes}.items():
        setattr(config, name, value)
    model, near = build(config, seed=1), noisy_copy(target).state_dict()
    ours, theirs = list(shared.to_draft), list(shared.to_draft.values())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.shape == near[name].shape and "embed" not in name and "head" not in name:
                parameter.copy_(near[name])
            else:
                parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(2))
                parameter[theirs] = near[name][ours]
    return model


def load_two(folder: Path, *, step: str = "auto") -> Pair:
    return load_pair(
        PairSpec(
            target=str(folder / "target"), draft=str(folder / "draft"), threads=1, step=step,
            shared_vocabulary=True,
        )
    )  # fmt: skip

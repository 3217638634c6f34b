"""Small models and a small real tokenizer, written as model folders.

A target has random weights broad enough to emit many different tokens; its draft is the same
model with added noise, so some candidates are accepted and some are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers as hf
from tokenizers import Tokenizer
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from specviz.engine.graphed.trial import add_lanes
from specviz.engine.loading.compatibility import take_step_weights
from specviz.engine.model.pair import Pair
from specviz.engine.model.text import TokenTable, make_token_table
from specviz.record.pairs import GRAPHED
from specviz.record.trace import Environment, ModelInfo, PairInfo
from specviz.training.tokenizer import train_tokenizer

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


END = "<|endoftext|>"
WINDOW = 8  # of the families with a sliding window: shorter than any prompt of the tests
VOCABULARY = 320
CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
_TEXT = (
    "Once upon a time there was a little girl called Lily who had a red ball. "
    "She loved to play in the park with her friend Tom and his small brown dog. "
    "One day the ball rolled away and they could not find it, so Lily was very sad. "
    "The dog ran to the big tree and came back with the ball, and they all laughed. "
)


@cache
def _bpe(size: int) -> Tokenizer:
    return train_tokenizer([_TEXT], size)


def small_tokenizer(
    size: int = VOCABULARY, *, chat_template: str | None = None
) -> PreTrainedTokenizerFast:
    """A byte-level BPE of up to ``size`` ids; the first 257 are the end token and the bytes."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_bpe(size).to_str()),
        eos_token=END,
        pad_token=END,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = chat_template
    return tokenizer


def _shape(vocabulary: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }


def _grouped(vocabulary: int) -> dict[str, Any]:
    return _shape(vocabulary) | {"num_key_value_heads": 2, "head_dim": 8}


def _gemma(vocabulary: int) -> dict[str, Any]:
    own = {"query_pre_attn_scalar": 8, "sliding_window": WINDOW}
    layers = {"layer_types": ["sliding_attention", "full_attention"]}
    return _grouped(vocabulary) | own | layers


def _gpt2(vocabulary: int) -> dict[str, Any]:
    own = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": False}
    return {"vocab_size": vocabulary} | own | ends


def _opt(vocabulary: int) -> dict[str, Any]:
    own = {"ffn_dim": 64, "word_embed_proj_dim": 32, "pad_token_id": 1}
    return _shape(vocabulary) | own


_CONFIGS: dict[str, Callable[[int], PreTrainedConfig]] = {
    "llama": lambda size: hf.LlamaConfig(**_grouped(size)),
    "qwen2": lambda size: hf.Qwen2Config(**_shape(size), num_key_value_heads=2),
    "qwen3": lambda size: hf.Qwen3Config(**_grouped(size)),
    "gemma2": lambda size: hf.Gemma2Config(**_gemma(size)),
    "gemma3_text": lambda size: hf.Gemma3TextConfig(**_gemma(size)),
    "gpt2": lambda size: hf.GPT2Config(**_gpt2(size)),
    "gpt_neox": lambda size: hf.GPTNeoXConfig(**_shape(size)),
    "opt": lambda size: hf.OPTConfig(**_opt(size)),
    "phi": lambda size: hf.PhiConfig(**_shape(size)),
    "mistral": lambda size: hf.MistralConfig(**_grouped(size), sliding_window=WINDOW),
    "mamba": lambda size: hf.MambaConfig(
        vocab_size=size, hidden_size=32, num_hidden_layers=2, state_size=8, eos_token_id=0
    ),
}
FAMILIES = tuple(family for family in _CONFIGS if family != "mamba")  # those that roll back


def tiny_config(family: str = "llama", vocabulary: int = VOCABULARY, **changes: Any) -> Any:
    config = _CONFIGS[family](vocabulary)
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def tiny_model(
    family: str = "llama",
    *,
    vocabulary: int = VOCABULARY,
    seed: int = 0,
    sigma: float = 0.3,
    **changes: Any,
) -> PreTrainedModel:
    """Random weights of standard deviation ``sigma``; norms and biases as initialised."""
    return wide(build(tiny_config(family, vocabulary, **changes), seed), seed, sigma)


def wide(model: PreTrainedModel, seed: int = 0, sigma: float = 0.3) -> PreTrainedModel:
    """Draw all matrices again, with standard deviation ``sigma``."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, sigma, generator=generator)
    return model


def build(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return hf.AutoModelForCausalLM.from_config(config).float().eval()


def noisy_copy(model: PreTrainedModel, noise: float = 0.08, seed: int = 1) -> PreTrainedModel:
    """The model with noise added: ``noise`` times each matrix's own deviation."""
    copy = build(model.config, seed)
    copy.load_state_dict(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in copy.parameters():
            if parameter.ndim == 2:
                wobble = torch.empty_like(parameter).normal_(generator=generator)
                parameter.add_(wobble * parameter.std() * noise)
    return copy


def write_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast | None
) -> Path:
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def write_pair(
    folder: Path,
    family: str = "llama",
    *,
    vocabulary: int = VOCABULARY,
    noise: float = 0.08,
    seed: int = 0,
    chat_template: str | None = None,
    **changes: Any,
) -> Path:
    """``folder/target`` and ``folder/draft``, the draft being a noisy copy of the target."""
    target = tiny_model(family, vocabulary=vocabulary, seed=seed, **changes)
    tokenizer = small_tokenizer(min(vocabulary, VOCABULARY), chat_template=chat_template)
    write_model(folder / "target", target, tokenizer)
    write_model(folder / "draft", noisy_copy(target, noise, seed + 1), tokenizer)
    return folder


def write_timing_pair(folder: Path, *, width: int = 192) -> Path:
    """A random pair of the embedded pair's shape, for timing rather than for its text."""
    shape: dict[str, Any] = {
        "hidden_size": width,
        "intermediate_size": width * 8 // 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 6,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    }
    tokenizer = small_tokenizer()
    for name, layers in (("target", 12), ("draft", 1)):
        settings: dict[str, Any] = _shape(4096) | shape | {"num_hidden_layers": layers}
        config = hf.LlamaConfig(**settings)
        write_model(folder / name, build(config, seed=layers), tokenizer)
    return folder


def pair_of(
    target: Model,
    draft: Model | None,
    *,
    step: str = "library",
    eos_ids: tuple[int, ...] = (0,),
    max_context: int | None = None,
    pieces: Sequence[bytes] | None = None,
    device: str = "cpu",
) -> Pair:
    """A pair of existing models: no folders, no rollback check, a small tokenizer.

    ``pieces`` are the bytes of each token; without them the small tokenizer gives them,
    and ids beyond it have no bytes.
    """
    vocabulary = int(target.config.vocab_size)
    tokenizer = small_tokenizer(min(vocabulary, VOCABULARY))
    if pieces is not None:
        table = TokenTable(tuple(pieces), tuple(piece.decode(errors="replace") for piece in pieces))
    else:
        table = make_token_table(tokenizer, vocabulary)
    for model in (target, draft):
        if model is not None and device != "cpu":
            model.to(device)  # pyright: ignore[reportArgumentType]
    models = {"target": target} | ({"draft": draft} if draft is not None else {})
    weights, notices = take_step_weights(models, dict.fromkeys(models, vocabulary), step)
    assert not notices
    infos = {
        name: ModelInfo(
            name=name,
            family=model.config.model_type,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            weights_sha256="",
            step="library" if step == "library" else "lean",
        )
        for name, model in models.items()
    }
    pair = Pair(
        name="tiny",
        target=target,
        draft=draft,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        token_table=table,
        eos_ids=frozenset(eos_ids),
        max_context=max_context,
        device=torch.device(device),
        info=PairInfo(
            name="tiny", target=infos["target"], draft=infos.get("draft"), vocabulary=vocabulary
        ),
        environment=Environment(
            device="cpu", device_name="", dtype="float32", threads=1, cpu="", versions={}
        ),
        target_weights=weights["target"],
        draft_weights=weights.get("draft"),
    )
    if step == GRAPHED:
        assert not add_lanes(pair)
    return pair


def generated(model: Any, prompt: Sequence[int], length: int) -> tuple[int, ...]:
    """The greedy text that transformers writes."""
    ids = torch.tensor([prompt])
    written = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=length,
        eos_token_id=None,
        pad_token_id=0,
    )
    return tuple(written[0, len(prompt) :].tolist())


def stir(model: PreTrainedModel, sigma: float = 0.1, seed: int = 7) -> PreTrainedModel:
    """Perturb norms of 1 and biases of 0, which would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.empty_like(parameter).normal_(0.0, sigma, generator=generator))
    return model

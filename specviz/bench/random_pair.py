"""Tiny pairs with random weights, to measure costs that do not depend on the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from specviz.record.trace import ModelInfo, PairInfo

if TYPE_CHECKING:
    from specviz.engine import Pair

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def random_pair(*, vocabulary: int) -> Pair:
    """Return a float32 pair on the CPU that runs specviz's own forward pass (the lean step).

    The target has four layers, the draft has one.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def model(layers: int) -> LlamaForCausalLM:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            config = LlamaConfig(vocab_size=vocabulary, num_hidden_layers=layers, **_SHAPE)
            return LlamaForCausalLM(config).eval().requires_grad_(False)

    return pair_of_models(model(4), model(1), vocabulary=vocabulary, step="lean")


def pair_of_models(
    target: Any, draft: Any, *, vocabulary: int, step: Literal["lean", "library"]
) -> Pair:
    """Return a float32 pair of these models on the CPU, without a tokenizer."""
    import torch

    from specviz.engine.loading.compatibility import take_step_weights
    from specviz.engine.loading.hardware import describe
    from specviz.engine.model.pair import Pair
    from specviz.engine.model.text import TokenTable

    def info(name: str, model: Any) -> ModelInfo:
        return ModelInfo(
            name=name,
            family=model.config.model_type,
            parameters=model.num_parameters(),
            weights_sha256="random",
            step=step,
        )

    vocabularies = {"target": vocabulary, "draft": vocabulary}
    weights, _ = take_step_weights({"target": target, "draft": draft}, vocabularies, step)
    cpu = torch.device("cpu")
    return Pair(
        name="random",
        target=target,
        draft=draft,
        tokenizer=None,
        vocabulary=vocabulary,
        token_table=TokenTable((b"",) * vocabulary, ("",) * vocabulary),
        eos_ids=frozenset(),
        max_context=512,
        device=cpu,
        info=PairInfo(
            name="random",
            target=info("random target", target),
            draft=info("random draft", draft),
            vocabulary=vocabulary,
        ),
        environment=describe(cpu, torch.float32),
        target_weights=weights["target"],
        draft_weights=weights["draft"],
    )

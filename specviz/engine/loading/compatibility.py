"""Check whether two models can work together, and choose the implementation of their steps.

Tokenizers are compared token by token. A probe checks that the lean step, specviz's own forward
pass, gives the same logits as the model's original code. ``rollback.py`` checks that each model can
roll its cache back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_trees import first_layers
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.packed_weights import agree_roughly, exact_products, is_packed
from specviz.engine.model.plain_llama import PlainLlamaForCausalLM, in_transformers
from specviz.engine.model.reduced_output import known_logits
from specviz.engine.model.steps import Step, StepWeights
from specviz.engine.model.tensors import type_name
from specviz.errors import PairError
from specviz.record.pairs import GRAPHED
from specviz.values import Value

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from specviz.engine.model.plain_llama import Config, Model


PROBE_TOKENS = 6
_WALK_TOKENS = 12
_TOLERANCES = {torch.float32: 1e-3}  # as a share of the logits' spread
_HALF_TOLERANCE = 5e-2


class ModelVocabulary(Value, eq=False):
    """A model's name, its tokenizer and the number of rows of its output matrix."""

    name: str
    tokenizer: Any
    rows: int


def common_vocabulary(
    target: ModelVocabulary, draft: ModelVocabulary | None
) -> tuple[int, tuple[str, ...]]:
    """Return the number of ids that both models share, and notices about differences.

    Raises:
        PairError: the tokenizers differ, or the draft lacks the target's EOS token.
    """
    own = real_ids(target)
    if draft is None:
        return own, ()
    vocabulary = min(own, real_ids(draft))
    _require_same_tokens(target, draft, vocabulary)
    _require_end(target, vocabulary)
    return vocabulary, (*_left_out(target, draft, own, vocabulary), *_other_end(target, draft))


def real_ids(model: ModelVocabulary) -> int:
    """Return how many output rows belong to tokens; the other rows are padding."""
    return min(model.rows, max(model.tokenizer.get_vocab().values()) + 1)


def same_tokens(target: ModelVocabulary, draft: ModelVocabulary) -> bool:
    """Return whether both tokenizers have the same tokens under the same ids."""
    ours, theirs = (
        each.tokenizer.convert_ids_to_tokens(range(real_ids(each))) for each in (target, draft)
    )
    return ours == theirs


def _require_same_tokens(target: ModelVocabulary, draft: ModelVocabulary, vocabulary: int) -> None:
    theirs = draft.tokenizer.convert_ids_to_tokens(range(vocabulary))
    ours = target.tokenizer.convert_ids_to_tokens(range(vocabulary))
    if ours == theirs:
        return
    differing = [i for i in range(vocabulary) if ours[i] != theirs[i]]
    first = differing[0]
    raise PairError(
        f"{draft.name} and {target.name} have different tokenizers: token {first} is "
        f"{theirs[first]!r} in the draft and {ours[first]!r} in the target, "
        f"and {len(differing)} of {vocabulary} tokens differ.",
        remedy="Choose a draft of the target's model family, or restrict the draft to the shared "
        "tokens (`--shared-vocabulary yes`).",
    )


def _require_end(target: ModelVocabulary, vocabulary: int) -> None:
    end = target.tokenizer.eos_token_id
    if end is not None and end >= vocabulary:
        raise PairError(
            f"The target's end token {target.tokenizer.eos_token!r} (id {end}) is unknown to "
            f"the draft, which shares {vocabulary} tokens with the target.",
            remedy="Choose a draft of the target's model family.",
        )


def _left_out(
    target: ModelVocabulary, draft: ModelVocabulary, own: int, vocabulary: int
) -> tuple[str, ...]:
    if own == vocabulary:
        return ()
    first = target.tokenizer.convert_ids_to_tokens(vocabulary)
    return (
        f"{own - vocabulary} tokens of {target.name} are unknown to {draft.name} and are never "
        f"emitted; the first is {first!r} (id {vocabulary}).",
    )


def _other_end(target: ModelVocabulary, draft: ModelVocabulary) -> tuple[str, ...]:
    ours, theirs = target.tokenizer.eos_token_id, draft.tokenizer.eos_token_id
    if ours == theirs:
        return ()
    return (
        f"The draft ends a text with {draft.tokenizer.eos_token!r}, but the target ends it with "
        f"{target.tokenizer.eos_token!r}; only the target's token is used.",
    )


@torch.inference_mode()
def fresh_logits(model: Model, ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Return the logits of a forward pass without a KV cache."""
    return model(ids[None], use_cache=False).logits[0, :, :vocabulary].float()


def require_same_logits(grown: Model, model: Model, name: str, vocabulary: int) -> None:
    """Raise PairError unless the enlarged model (``grown``) gives the same logits as ``model``."""
    ids = probe_ids(model, vocabulary, PROBE_TOKENS)
    own, ours = (fresh_logits(each, ids, vocabulary) for each in (model, grown))
    require_finite(ours, grown, name)
    if not close_to(ours, own, model.dtype):
        raise PairError(
            f"{name} gives different logits at the simulated size.",
            remedy="Use the model without a simulated size.",
        )


def require_numbers(model: Model, name: str) -> None:
    """Raise PairError if a weight is NaN, infinite, or overflows the dtype."""
    for weight, values in model.named_parameters():
        if not torch.isfinite(values.sum(dtype=torch.float32)):
            _refuse_weight(values, weight, model, name)


def _refuse_weight(values: torch.Tensor, weight: str, model: Model, name: str) -> None:
    if torch.isnan(values).any() or (torch.isinf(values).any() and _widest(model)):
        raise PairError(
            f"The weights of {name} are broken: {weight} contains NaN or infinite values.",
            remedy="Copy or download the model again, or choose another copy of it.",
        )
    if torch.isinf(values).any():
        _refuse_overflow(model, name)


def require_finite(logits: torch.Tensor, model: Model, name: str) -> None:
    """Raise PairError if a logit is NaN or infinite."""
    if torch.isfinite(logits).all():
        return
    if not _widest(model):
        _refuse_overflow(model, name)
    raise PairError(
        f"{name} computes values that are not finite, although its weights are finite.",
        remedy="The config.json does not match the weights; copy or download the model again.",
    )


def _refuse_overflow(model: Model, name: str) -> NoReturn:
    dtype = type_name(model.dtype)
    raise PairError(
        f"{name} computes values that are not finite in {dtype}.",
        remedy="Use the dtype float32.",
    )


def _widest(model: Model) -> bool:
    return model.dtype == torch.float32


def take_step_weights(
    models: Mapping[str, Model], vocabularies: Mapping[str, int], step: str
) -> tuple[dict[str, StepWeights], tuple[str, ...]]:
    """Return each model's weights in the form that the model's decoding steps read, and notices.

    If the lean step supports all models and its logits agree with those of the models' original
    code, all models use the lean step. Otherwise, all models run through transformers.

    ``step``: with "library", all models run through transformers in any case. With "lean" or
    "graphed", the function raises PairError if a model cannot use the lean step.
    """
    lean, notices = _take_lean(models, vocabularies, step)
    if lean:
        return lean, notices
    return {
        name: _library_weights(model, vocabularies[name]) for name, model in models.items()
    }, notices


def _take_lean(
    models: Mapping[str, Model], vocabularies: Mapping[str, int], step: str
) -> tuple[dict[str, StepWeights], tuple[str, ...]]:
    if step == "library":
        return {}, ()
    weights_by_name: dict[str, StepWeights] = {}
    for name, model in models.items():
        weights = LeanWeights.take(model)
        if weights is None:
            reason = f"the lean step does not support {model.config.model_type} models"
            return _without_lean(step, reason)
        vocabulary = vocabularies[name]
        same = not is_packed(model) or same_layers(weights, model, vocabulary)
        if not same or not _agrees(weights.step(vocabulary, _WALK_TOKENS), model, vocabulary):
            reason = f"the lean step gives different logits for {name}"
            return _without_lean(step, reason, notify=True)
        weights_by_name[name] = weights
    return weights_by_name, ()


def with_kernels(weights: StepWeights, model: Model, vocabulary: int) -> StepWeights | None:
    """Return the weights, read by the kernels; None if this changes the logits."""
    if not isinstance(weights, LeanWeights):
        return _library_weights(model, vocabulary)
    compiled = weights.with_kernels()
    agrees = _agrees(compiled.step(vocabulary, _WALK_TOKENS), model, vocabulary)
    return compiled if agrees else None


def _without_lean(
    step: str, reason: str, *, notify: bool = False
) -> tuple[dict[str, StepWeights], tuple[str, ...]]:
    if step in ("lean", GRAPHED):
        raise PairError(
            f"The pair does not support --step {step}: {reason}.", remedy="Use `--step library`."
        )
    return {}, (f"The library step is used: {reason}.",) if notify else ()


def library_step(model: PreTrainedModel, vocabulary: int) -> Step:
    """Return a step that runs the model through transformers, to test it on a short text."""
    from specviz.engine.model.library_weights import LibraryWeights

    return LibraryWeights(model).step(vocabulary, _WALK_TOKENS)


def _library_weights(given: Model, vocabulary: int) -> StepWeights:
    """Return the model's weights, with faster products if they change logits only by rounding."""
    from specviz.engine.model.library_weights import LibraryWeights
    from specviz.engine.model.products import ProductLayer, with_products

    model = in_transformers(given)
    twin = with_products(model)
    if not any(isinstance(module, ProductLayer) for module in twin.modules()):
        return LibraryWeights(model)
    agrees = _agrees(library_step(twin, vocabulary), model, vocabulary)
    return LibraryWeights(twin if agrees else model)


def _agrees(step: Step, model: Model, vocabulary: int) -> bool:
    ids = probe_ids(model, vocabulary, _WALK_TOKENS)
    library = _reference(model, vocabulary, ids)
    try:
        ours = _walk(step, ids)
    except (RuntimeError, AttributeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        return False
    return same_logits(ours, library, model) and (
        is_packed(model) or same_choice(ours, library, model.dtype)
    )


def _reference(model: Model, vocabulary: int, ids: torch.Tensor) -> torch.Tensor:
    """Return the logits that ``_walk`` should return, computed with the model's original code."""
    if isinstance(model, PlainLlamaForCausalLM):
        text, other = ids[:10], torch.cat((ids[:8], ids[10:12]))
        before, after = (fresh_logits(model, each, vocabulary) for each in (text, other))
        return torch.cat((before[4:10], after[8:10]))
    return _walk(library_step(model, vocabulary), ids)


def _walk(step: Step, ids: torch.Tensor) -> torch.Tensor:
    """Return logits of a prefill, a one-token step, a verification, and a pass after a rollback."""
    prefill = step.feed(ids[:5], 1).clone()
    single = step.feed(ids[5:6], 1).clone()
    verify = step.feed(ids[6:10], 4).clone()
    step.forget(2)
    return torch.cat((prefill, single, verify, step.feed(ids[10:12], 2)))


def same_logits(ours: torch.Tensor, reference: torch.Tensor, model: Model) -> bool:
    """Return whether ``ours`` and ``reference`` agree within rounding errors."""
    if is_packed(model):
        return agree_roughly(*known_logits(ours, reference))
    return close_to(ours, reference, model.dtype)


@torch.inference_mode()
def same_layers(weights: LeanWeights, model: Model, vocabulary: int) -> bool:
    """Return whether the lean step and the library compute the same state in the first layers.

    The hidden states after the first two layers are compared. The model is packed: its weights are
    quantised. Its matrix products usually round activations, which would hide small differences. In
    this comparison, neither side rounds activations, so the strict tolerance of float32 applies.
    Differences can then come only from norms, positions and attention, which the lean step
    implements itself.
    """
    layers = min(2, len(weights.layers))
    ids = probe_ids(model, vocabulary, _WALK_TOKENS)
    step = replace(weights.first(layers), compiled=None).step(vocabulary, _WALK_TOKENS)
    shallow: Any = first_layers(model, layers)
    with exact_products():
        step.feed(ids, 0)
        found = shallow.model(ids[None])
    expected = getattr(found, "last_hidden_state", found)[0, -1:]
    assert step.hidden is not None
    return close_to(step.hidden, expected, torch.float32)


def close_to(ours: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether ``ours`` and ``reference`` agree within ``logit_tolerance``."""
    ours, reference = known_logits(ours, reference)
    difference = (ours - reference).abs().max()
    return bool(difference <= logit_tolerance(reference, dtype))


def same_choice(ours: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether both logits have the same likeliest token in each row.

    Rows in which the reference's two highest logits are nearly equal do not count.
    """
    ours, reference = known_logits(ours, reference)
    if reference.shape[-1] < 2:
        return True
    top = reference.topk(2).values
    clear = top[:, 0] - top[:, 1] > 2 * logit_tolerance(reference, dtype)
    return bool((ours.argmax(-1) == reference.argmax(-1))[clear].all())


def logit_tolerance(reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the largest difference from ``reference`` at which logits count as equal.

    The tolerance is a fraction of the logits' spread; the fraction depends on the dtype. The spread
    is the largest distance of a logit from the mean of its row. Adding a constant to all logits
    changes neither the spread nor the softmax. A small term allows for float32 rounding.
    """
    spread = (reference - reference.mean(-1, keepdim=True)).abs().max()
    rounding = 8 * torch.finfo(torch.float32).eps * reference.abs().max()
    return _TOLERANCES.get(dtype, _HALF_TOLERANCE) * spread + rounding


def probe_ids(model: Model, vocabulary: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary, (count,), generator=generator)
    return ids.to(input_device(model))


def input_device(model: Model) -> torch.device:
    """Return the device for input token ids; other layers may be on other devices."""
    embedding: Any = model.get_input_embeddings()
    return embedding.weight.device


def context_limits(
    configs: dict[str, Config],
) -> tuple[int | None, tuple[str, ...]]:
    """Return the shortest of the models' context limits, and a notice if the limits differ."""
    limits = {name: limit for name, own in configs.items() if (limit := _context(own))}
    if not limits:
        return None, ()
    shortest = min(limits, key=lambda name: limits[name])
    if len(set(limits.values())) == 1:
        return limits[shortest], ()
    return limits[shortest], (
        f"The context limit is {limits[shortest]} tokens, the limit of {shortest}; "
        f"the other model's limit is {max(limits.values())}.",
    )


_CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def _context(config: Config) -> int | None:
    text = config.get_text_config()
    values = (getattr(text, name, None) for name in _CONTEXT_NAMES)
    return next((int(value) for value in values if isinstance(value, int) and value > 0), None)

"""The lean step gives the library's logits, whatever was fed and forgotten before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from specviz.engine.model import compiled_step, tiles
from specviz.engine.model.lean import LeanStep
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.step_capabilities import FINAL
from specviz.engine.model.steps import Step
from specviz.kernels.step import MOST_ROWS
from tests.engine.models import FAMILIES, WINDOW, stir, tiny_model

LEAN = ("llama", "mistral", "qwen2", "qwen3")
TOLERANCE = 1e-4
HALF = (torch.bfloat16, torch.float16)
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.5}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    **{family: (family, {}) for family in LEAN},
    "llama3 rope": ("llama", {"rope_parameters": LLAMA3_ROPE}),
    "yarn rope": ("llama", {"rope_parameters": YARN_ROPE}),
    "linear rope": ("qwen2", {"rope_parameters": LINEAR_ROPE}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "every head its own keys": ("llama", {"num_key_value_heads": 4}),
    "one head of keys": ("qwen3", {"num_key_value_heads": 1}),
    "wide heads": ("mistral", {"head_dim": 16}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "blocks of columns": ("llama", {"hidden_size": 288, "intermediate_size": 528}),
    "windows in some layers": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
}


def both(shape: str) -> tuple[PreTrainedModel, LibraryStep, LeanStep]:
    family, changes = SHAPES[shape]
    model = stir(tiny_model(family, sigma=0.2, **changes))
    weights = LeanWeights.take(model)
    assert weights is not None
    return model, LibraryStep(model, 320), LeanStep(weights, 320, 200)


def in_precision(model: Any, dtype: torch.dtype) -> PreTrainedModel:
    return model.to(dtype)


def lean_step(model: PreTrainedModel) -> LeanStep:
    weights = LeanWeights.take(model)
    assert weights is not None
    assert weights.compiled is not None
    return LeanStep(weights, 320, 200)


def ids(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(320, (count,), generator=torch.Generator().manual_seed(seed))


def same(library: Step, lean: Step, tokens: torch.Tensor, num_logits: int) -> None:
    ours, theirs = lean.feed(tokens, num_logits), library.feed(tokens, num_logits)
    assert ours.dtype == torch.float32
    assert lean.length == library.length
    if num_logits:
        assert ours.shape == theirs.shape == (num_logits, 320)
        torch.testing.assert_close(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_match_the_library(shape: str) -> None:
    _, library, lean = both(shape)
    same(library, lean, ids(30), 0)  # a prefill longer than any window
    same(library, lean, ids(1, 1), 1)
    same(library, lean, ids(6, 2), 6)
    for count in (4, 0, 1):
        library.forget(count)
        lean.forget(count)
        same(library, lean, ids(2, 3 + count), 1)
        same(library, lean, ids(9, 4 + count), 9)
    library.forget(lean.length)
    lean.forget(lean.length)
    assert lean.length == 0
    same(library, lean, ids(3, 9), 3)


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_match_one_forward_pass(shape: str) -> None:
    model, _, lean = both(shape)
    tokens = ids(60)
    parts = [lean.feed(part, len(part)) for part in tokens.split([1, 20, 1, 1, 5, 30, 2])]
    with torch.inference_mode():
        whole = model(tokens[None]).logits[0]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_rounds_like_the_library(shape: str, dtype: torch.dtype) -> None:
    """Its deviation from the library is at most twice that of the torch step."""
    family, changes = SHAPES[shape]
    model = in_precision(stir(tiny_model(family, sigma=0.05, **changes)), dtype)
    compiled, in_torch, library = lean_step(model), lean_step(model), LibraryStep(model, 320)
    in_torch._compiled = None
    far: dict[str, float] = {"compiled": 0.0, "torch": 0.0}
    for number, count in enumerate((17, 1, 6, 2, 30, 1, 9)):
        expected = library.feed(ids(count, number), count)
        for name, step in (("compiled", compiled), ("torch", in_torch)):
            difference = step.feed(ids(count, number), count) - expected
            far[name] = max(far[name], float(difference.abs().max()))
    assert compiled.hidden is not None
    assert compiled.hidden.dtype == dtype
    assert far["compiled"] <= 2 * far["torch"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, *HALF], ids=str)
def test_logits_do_not_depend_on_feed_sizes_or_threads(
    monkeypatch: pytest.MonkeyPatch, shape: str, dtype: torch.dtype
) -> None:
    family, changes = SHAPES[shape]
    model, tokens = in_precision(stir(tiny_model(family, sigma=0.2, **changes)), dtype), ids(34)

    def logits(threads: int, sizes: list[int]) -> torch.Tensor:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        step = lean_step(model)
        return torch.cat([step.feed(part, len(part)) for part in tokens.split(sizes)])

    one_by_one = logits(1, [1] * 34)
    for threads in (1, 2, 3):
        for sizes in ([17, 17], [6, 5, 4, 3, 2, 1, 13], [7, 8, 9, 10]):
            assert torch.equal(logits(threads, sizes), one_by_one)


@pytest.mark.parametrize("shape", ["llama", "biases", "tied"])
def test_the_kernels_read_a_larger_model_in_place(
    monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    _, _, tiled = both(shape)
    monkeypatch.setattr(tiles, "MOST_BYTES", 0)
    _, library, in_place = both(shape)
    held = [each._weights.compiled.tiles for each in (tiled, in_place)]  # type: ignore[union-attr]
    assert [len(each) for each in held] == [4 * 2 + 1, 0]
    for number, count in enumerate((20, 1, 6, 13)):
        same(library, in_place, ids(count, number), count)
    in_place.forget(20)
    one_by_one = torch.cat([in_place.feed(each, 1) for each in ids(20, 9).split(1)])
    in_place.forget(20)
    parts = [in_place.feed(each, len(each)) for each in ids(20, 9).split([3, 13, 4])]
    assert torch.equal(torch.cat(parts), one_by_one)


@pytest.mark.parametrize(
    ("changes", "tiled"),
    [({}, True), ({"vocab_size": 317}, True), ({"intermediate_size": 88}, False)],
)
def test_any_vocabulary_is_tiled_but_not_any_gate(changes: dict[str, Any], tiled: bool) -> None:
    model = stir(tiny_model("llama", **changes))
    weights, vocabulary = lean_step(model)._weights, model.config.vocab_size
    assert weights.compiled is not None
    assert bool(weights.compiled.tiles) == tiled
    lean, library = LeanStep(weights, vocabulary, 60), LibraryStep(model, vocabulary)
    tokens = ids(9) % vocabulary
    torch.testing.assert_close(
        lean.feed(tokens, 9), library.feed(tokens, 9), rtol=TOLERANCE, atol=TOLERANCE
    )


def test_threads_attend_at_once_and_do_not_mix_their_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long text, so that attention takes long enough for the threads to overlap."""
    shape: dict[str, Any] = {"num_attention_heads": 8, "num_key_value_heads": 8}
    model = tiny_model(sigma=0.2, max_position_embeddings=2048, num_hidden_layers=1, **shape)
    weights = LeanWeights.take(model)
    assert weights is not None
    assert weights.compiled is not None
    step, newest = LeanStep(weights, 320, 2048), ids(MOST_ROWS)
    step.feed(ids(1900, 1), 0)

    def logits(threads: int) -> torch.Tensor:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        found = step.feed(newest, MOST_ROWS)
        step.forget(MOST_ROWS)
        return found

    alone = logits(1)
    for _ in range(20):
        assert torch.equal(logits(2), alone)


def test_falls_back_to_torch_without_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled_step, "ready", lambda dtype: False)
    model = stir(tiny_model("llama", sigma=0.2))
    weights = LeanWeights.take(model)
    assert weights is not None
    assert weights.compiled is None
    lean, library = LeanStep(weights, 320, 200), LibraryStep(model, 320)
    for number, count in enumerate((9, 1, 6)):
        same(library, lean, ids(count, number), count)


def test_a_float64_model_runs_in_torch() -> None:
    weights = LeanWeights.take(tiny_model("llama").double())
    assert weights is not None
    assert weights.compiled is None


def test_the_cache_is_filled_to_its_last_place() -> None:
    model = stir(tiny_model("llama", sigma=0.2))
    weights = LeanWeights.take(model)
    assert weights is not None
    lean, library = LeanStep(weights, 320, 25), LibraryStep(model, 320)
    for number, count in enumerate((17, 6, 1, 1)):
        same(library, lean, ids(count, number), count)
    with pytest.raises(AssertionError):
        lean.feed(ids(1), 1)


def test_stirring_changes_the_logits() -> None:
    """Otherwise norms of 1 and biases of 0 would hide mistakes."""
    plain, moved = tiny_model("qwen3", sigma=0.2), stir(tiny_model("qwen3", sigma=0.2))
    with torch.inference_mode():
        difference = plain(ids(9)[None]).logits - moved(ids(9)[None]).logits
    assert float(difference.abs().max()) > 0.1


def test_padding_rows_are_cut_from_the_logits() -> None:
    model = tiny_model("llama")
    weights = LeanWeights.take(model)
    assert weights is not None
    lean, library = LeanStep(weights, 300, 20), LibraryStep(model, 300)
    assert lean.feed(ids(5) % 300, 2).shape == library.feed(ids(5) % 300, 2).shape == (2, 300)


def test_hidden_states_are_the_last_ones() -> None:
    model, _, lean = both("llama")
    library = LibraryStep(model, 320)
    library.request_hidden(FINAL)
    lean.feed(ids(7), 7)
    library.feed(ids(7), 7)
    assert lean.hidden is not None
    assert library.hidden is not None
    torch.testing.assert_close(lean.hidden, library.hidden, rtol=TOLERANCE, atol=TOLERANCE)


def test_the_model_itself_is_unchanged() -> None:
    """Joined weights share memory with the model's parameters."""
    model = stir(tiny_model("qwen2"))
    with torch.inference_mode():
        before = model(ids(12)[None]).logits
    assert LeanWeights.take(model) is not None
    assert LeanWeights.take(model) is not None  # and again
    with torch.inference_mode():
        assert torch.equal(model(ids(12)[None]).logits, before)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in LEAN])
def test_other_families_have_no_lean_step(family: str) -> None:
    assert LeanWeights.take(tiny_model(family)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}},
    ],
    ids=str,
)
def test_unsupported_settings_have_no_lean_step(changes: dict[str, Any]) -> None:
    assert LeanWeights.take(tiny_model("llama", **changes)) is None

"""MTP layers: logits of the library's own code, caches of several layers, settings, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from specviz.engine.heads.head import TargetParts
from specviz.engine.heads.mtp import MtpHead, MtpSettings, find_mtp, open_mtp
from specviz.engine.model.step_capabilities import AFTER_NORM
from specviz.errors import ModelFileError
from tests.engine.heads.tiny_heads import (
    WIDTH,
    assert_close,
    change_tensors,
    random_rows,
    tiny_target,
    write_folder,
)
from tests.engine.heads.tiny_mtp import (
    APPENDED,
    DECODER_LAYERS,
    ZERO_CENTRED,
    mtp_config,
    write_mtp,
)

STEPS = 4
_RECORDED = Path(__file__).parent / "recorded"
OnePass = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # tokens and states to outputs


def opened(folder: Path, target: TargetParts | None = None) -> MtpHead:
    facts = find_mtp(folder)
    assert facts is not None
    return open_mtp(facts, tiny_target() if target is None else target)


def drafted(
    head: MtpHead, run: Any, ids: torch.Tensor, states: torch.Tensor, steps: int = STEPS
) -> torch.Tensor:
    """The logits of a round that always takes the likeliest candidate."""
    rows = [run.begin(ids, states)]
    for _ in range(steps - 1):
        rows.append(run.go_on(rows[-1].argmax(-1)))
    return torch.cat(rows)


def chain(one_pass: OnePass, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """The logits of the same round, with every row computed again in each step."""
    rows = []
    for _ in range(STEPS):
        outputs = one_pass(ids, states)
        rows.append(tiny_target().output(outputs[-1:]))
        ids = torch.cat((ids, rows[-1].argmax(-1)))
        states = torch.cat((states, outputs[-1:]))
    return torch.cat(rows)


def library_model(folder: Path, family: str, layers: int) -> Any:
    """The library's own model of the MTP layers, which it reads from the folder."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_layers import MtpModel

    given = mtp_config(family, layers)
    config = AutoConfig.for_model(given.pop("model_type"), **given)
    model: Any = AutoModelForCausalLM.from_config(config)
    config.name_or_path, config.dtype = str(folder), torch.float32
    numbers = range(DECODER_LAYERS, DECODER_LAYERS + layers)
    model._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{each}\..*" for each in numbers]
    target = tiny_target()
    weight = target.embed(torch.arange(target.vocabulary))
    model.get_input_embeddings().weight = nn.Parameter(weight)
    model.lm_head.weight = nn.Parameter(target.output(torch.eye(WIDTH)).T)
    return MtpModel.from_pretrained(model).eval()


def appended_pass(folder: Path, family: str) -> OnePass:
    from transformers.cache_utils import MtpCache

    model = library_model(folder, family, 1)

    def one_pass(ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(len(ids))[None] + 1
        return model.forward_layer(0, states[None], positions, MtpCache(), input_ids=ids[None])[0]

    return one_pass


def whole_model_pass(folder: Path, family: str) -> OnePass:
    """The projection by formula, and a model of the family with one layer for the rest."""
    from transformers import AutoConfig, AutoModel

    given = mtp_config(family)
    kind = "qwen2" if family == "mimo" else given["model_type"]
    del given["model_type"]
    tensors = load_file(folder / "model.safetensors")
    mimo = family == "mimo"
    more: dict[str, Any] = {"num_hidden_layers": 1, "layer_types": ["full_attention"]}
    model: Any = AutoModel.from_config(AutoConfig.for_model(kind, **given | more)).eval()
    prefix = "model.mtp_layers.0." if mimo else "mtp.layers.0."
    _load_layer(model, tensors, prefix, "final_layernorm" if mimo else "mtp.norm")
    names = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc")
    if mimo:
        names = ("token_layernorm", "hidden_layernorm", "input_proj")
    root = prefix if mimo else "mtp."
    embedding_norm, state_norm, projection = (tensors[f"{root}{each}.weight"] for each in names)
    centre = 1.0 if family in ZERO_CENTRED else 0.0

    def one_pass(ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        embedded = tiny_target().embed(ids)
        if mimo:
            embedded[0] = 0
        token = F.rms_norm(embedded, (WIDTH,), embedding_norm + centre, 1e-5)
        state = F.rms_norm(states, (WIDTH,), state_norm + centre, 1e-5)
        joined = torch.cat((state, token) if mimo else (token, state), -1) @ projection.T
        return model(inputs_embeds=joined[None], use_cache=False).last_hidden_state[0]

    return one_pass


def _load_layer(model: Any, tensors: dict[str, torch.Tensor], prefix: str, final: str) -> None:
    own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    for number in range(4):
        expert = f"mlp.experts.{number}."
        if f"{expert}gate_proj.weight" in own:
            gate, up = own[f"{expert}gate_proj.weight"], own[f"{expert}up_proj.weight"]
            experts = model.layers[0].mlp.experts
            experts.gate_up_proj.data[number] = torch.cat((gate, up))
            experts.down_proj.data[number] = own[f"{expert}down_proj.weight"]
    kept = model.layers[0].state_dict()
    model.layers[0].load_state_dict({name: own.get(name, kept[name]) for name in kept})
    norm = own[f"{final}.weight"] if f"{final}.weight" in own else tensors[f"{final}.weight"]
    model.norm.weight.data = norm


@pytest.mark.parametrize("family", [*APPENDED, *ZERO_CENTRED, "mimo"])
@torch.inference_mode()
def test_chains_are_those_of_the_library(family: str, tmp_path: Path) -> None:
    folder = write_mtp(tmp_path, family)
    head = opened(folder)
    build = appended_pass if family in APPENDED else whole_model_pass
    one_pass = build(folder, family)
    ids, states = random_rows(9, WIDTH)
    run = head.start(30)
    for first, last in ((0, 5), (5, 8), (8, 9)):
        found = drafted(head, run, ids[first:last], states[first:last])
        expected = chain(one_pass, ids[:last], states[:last])
        assert found.argmax(-1).tolist() == expected.argmax(-1).tolist()
        assert (found - expected).abs().max() < 1e-5
        assert run.length == last


@torch.inference_mode()
def test_mimo_rows_and_chain_are_those_of_the_authors_code(tmp_path: Path) -> None:
    """Row 0 reads zeros in place of its embedding, as in the authors' serving code."""
    with safe_open(_RECORDED / "mimo.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        data = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    weights = {key.removeprefix("head."): each for key, each in data.items() if "head." in key}
    head = opened(write_folder(tmp_path, config, weights))
    assert head.settings == MtpSettings(embedding_first=False, zero_first_embedding=True)
    run = head.start(16)
    for row, (token, state) in enumerate(zip(data["token_ids"], data["states"], strict=True)):
        logits = run.begin(token[None], state[None])
        assert_close(logits, data["logits"][row : row + 1])
        assert_close(run._recycled, data["outputs"][row : row + 1])
    at_once = head.start(16)
    logits = drafted(head, at_once, data["token_ids"], data["states"], len(data["chain"]))
    assert logits.argmax(-1).tolist() == data["chain"].tolist()
    assert_close(logits, data["chain_logits"])


@torch.inference_mode()
def test_several_layers_draft_one_candidate_each(tmp_path: Path) -> None:
    from transformers.cache_utils import MtpCache

    folder = write_mtp(tmp_path, "glm4_moe", 3)
    model, head = library_model(folder, "glm4_moe", 3), opened(folder)
    assert head.most_candidates == 3
    ids, states = random_rows(12, WIDTH)
    run = head.start(30)
    for first, last, steps in ((0, 6, 3), (6, 7, 1), (7, 8, 2), (8, 11, 3), (11, 12, 3)):
        found = drafted(head, run, ids[first:last], states[first:last], steps)
        positions = torch.arange(last)[None] + 1
        chosen, logits, _ = model(
            ids[None, :last], states[None, :last], None, positions, MtpCache()
        )
        assert found.argmax(-1).tolist() == chosen[0, :steps].tolist()
        assert (found - logits[0, :steps]).abs().max() < 1e-5


@pytest.mark.parametrize(("family", "layers"), [("qwen3_5_text", 1), ("glm4_moe", 3)])
def test_forgotten_rows_leave_no_trace(family: str, layers: int, tmp_path: Path) -> None:
    head = opened(write_mtp(tmp_path, family, layers))
    ids, states = random_rows(10, WIDTH)
    other_ids, other_states = random_rows(4, WIDTH, seed=8)
    run = head.start(30)
    drafted(head, run, ids[:6], states[:6], 3)
    drafted(head, run, other_ids, other_states, 3)
    run.forget(4)
    run.forget(1)
    assert run.length == 5
    found = drafted(head, run, ids[5:], states[5:], 3)
    expected = drafted(head, head.start(30), ids, states, 3)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_states_of_the_files_are_found(tmp_path: Path) -> None:
    facts = find_mtp(write_mtp(tmp_path, "deepseek_v3", 2))
    assert facts is not None
    assert (facts.family, facts.layout, facts.layers) == ("deepseek_v3", "appended", 2)
    assert not any(name.startswith("model.layers.1.") for name in facts.tensors)
    head = open_mtp(facts, tiny_target())
    assert facts.parameters == sum(each.numel() for each in head.parameters) + 2 * 4  # buffers
    assert head.states.places == (AFTER_NORM,)


def test_the_text_part_of_a_multimodal_model_is_read(tmp_path: Path) -> None:
    facts = find_mtp(write_mtp(tmp_path, "qwen3_5_moe_text"))
    assert facts is not None
    assert (facts.family, facts.layout, facts.layers) == ("qwen3_5_moe_text", "mtp", 1)
    assert facts.config["hidden_size"] == WIDTH


def test_models_without_these_layers_have_no_facts(tmp_path: Path) -> None:
    assert find_mtp(tmp_path / "nothing") is None
    folder = write_mtp(tmp_path / "model", "glm4_moe")
    (folder / "model.safetensors").unlink()
    assert find_mtp(folder) is None


@pytest.mark.parametrize(
    "change",
    [
        {"embedding_first": False},
        {"zero_first_embedding": True},
        {"recycle_after_norm": False},
        {"shift_ids": 0},
    ],
)
def test_each_setting_changes_the_logits(change: dict[str, Any], tmp_path: Path) -> None:
    head = opened(write_mtp(tmp_path, "qwen3_5_text"))
    other = head.with_settings(replace(head.settings, **change))
    ids, states = random_rows(5, WIDTH)
    rows = [drafted(each, each.start(20), ids, states) for each in (head, other)]
    assert (rows[0] - rows[1]).abs().max() > 1e-3
    assert other.layers is head.layers


def test_the_first_position_changes_nothing_that_is_relative(tmp_path: Path) -> None:
    head = opened(write_mtp(tmp_path, "qwen3_5_text"))
    other = head.with_settings(replace(head.settings, first_position=1))
    ids, states = random_rows(5, WIDTH)
    rows = [drafted(each, each.start(20), ids, states) for each in (head, other)]
    torch.testing.assert_close(rows[0], rows[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["deepseek_v3", "qwen3_5_text"])
def test_half_precision_gives_logits_in_full(family: str, tmp_path: Path) -> None:
    folder, target = write_mtp(tmp_path, family), tiny_target()
    half = replace(
        target,
        like=target.like.bfloat16(),
        embed=lambda ids: target.embed(ids).bfloat16(),
        output=lambda states: target.output(states.float()).bfloat16(),
    )
    ids, states = random_rows(3, WIDTH)
    run, expected = opened(folder, half).start(9), opened(folder).start(9).begin(ids, states)
    found = run.begin(ids, states.bfloat16())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.3, rtol=0)
    assert run.go_on(found.argmax(-1)).dtype == torch.float32


def _without(name: str) -> Callable[[Path], object]:
    return lambda folder: change_tensors(folder, lambda each: each.pop(name))


def _with(name: str, tensor: torch.Tensor) -> Callable[[Path], object]:
    return lambda folder: change_tensors(folder, lambda each: each.update({name: tensor}))


def _stating(**entries: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | entries
        (folder / "config.json").write_text(json.dumps(config))

    return change


LAYER = f"model.layers.{DECODER_LAYERS}"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without(f"{LAYER}.hnorm.weight"), "has no hnorm.weight"),
        (_without(f"{LAYER}.mlp.experts.1.up_proj.weight"), "has no mlp.experts."),
        (_with(f"{LAYER}.hnorm.weight", torch.ones(WIDTH + 1)), "hnorm.weight of MTP layer 0"),
        (_with(f"{LAYER}.hnorm.weight", torch.ones(WIDTH).to(torch.int8)), "quantised"),
        (_with(f"{LAYER}.hnorm.weight", torch.full((WIDTH,), float("nan"))), "contains NaN"),
        (_stating(model_type="other"), "family other"),
        (_stating(hidden_size=64), "width 64"),
        (_stating(mtp_use_dedicated_embeddings=True), "own embedding"),
        (_stating(num_attention_heads="many"), "not valid"),
        (lambda folder: (folder / "config.json").write_text("[]"), "config.json is damaged"),
        (lambda folder: (folder / "more.safetensors").write_bytes(b"x"), "more.safetensors"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    damage: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    folder = write_mtp(tmp_path, "glm4_moe")
    damage(folder)
    with pytest.raises(ModelFileError) as refusal:
        opened(folder)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)

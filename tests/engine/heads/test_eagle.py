"""The forward pass of EAGLE heads: the authors' outputs, identities, and the cache.

``recorded/`` holds tiny random heads with inputs and the outputs of the authors' code: EAGLE's own
for the official layout, and the package ``speculators`` for its layout.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open

from specviz.engine.heads.eagle import EagleHead
from specviz.engine.heads.head import HeadRun
from specviz.engine.model.step_capabilities import AFTER_NORM
from tests.engine.heads.tiny_heads import (
    DRAFT_VOCABULARY,
    VOCABULARY,
    WIDTH,
    assert_close,
    change_config,
    change_tensors,
    opened,
    random_rows,
    tiny_target,
    write_eagle,
    write_eagle3,
    write_folder,
)

_RECORDED = Path(__file__).parent / "recorded"
_OFFICIAL = ("eagle1_fc_bias", "eagle1_two_layers", "eagle3_official", "eagle3_own_embedding")
_SPECULATORS = ("speculators_llama", "speculators_qwen3")


def recorded(name: str, folder: Path) -> tuple[EagleHead, dict[str, torch.Tensor]]:
    """Return a recorded head, opened from files, with its inputs and outputs."""
    with safe_open(_RECORDED / f"{name}.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["config"])
        found = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    weights = {key.removeprefix("head."): found.pop(key) for key in list(found) if "head." in key}
    return opened(write_folder(folder, config, weights)), found


def in_target_ids(head: EagleHead, logits: torch.Tensor) -> torch.Tensor:
    if head.proposable is None:
        return logits
    wide = torch.full((len(logits), VOCABULARY), float("-inf"))
    wide[:, head.proposable] = logits
    return wide


def chain(run: HeadRun, first: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draft greedily; return the tokens and their logits."""
    rows = [first]
    while len(rows) < count:
        rows.append(run.go_on(rows[-1].argmax(-1)))
    logits = torch.cat(rows)
    return logits.argmax(-1), logits


class TestAuthorsOutputs:
    @pytest.mark.parametrize("name", _OFFICIAL)
    def test_rows_of_an_official_head(self, name: str, tmp_path: Path) -> None:
        head, data = recorded(name, tmp_path)
        expected = in_target_ids(head, data["logits"])
        run = head.start(16)
        for row, (token, state) in enumerate(zip(data["token_ids"], data["states"], strict=True)):
            logits = run.begin(token[None], state[None])
            assert_close(logits, expected[row : row + 1])

    @pytest.mark.parametrize("name", _OFFICIAL)
    def test_chain_of_an_official_head(self, name: str, tmp_path: Path) -> None:
        head, data = recorded(name, tmp_path)
        run = head.start(16)
        first = run.begin(data["token_ids"], data["states"])
        tokens, logits = chain(run, first, len(data["chain"]))
        assert tokens.tolist() == data["chain"].tolist()
        assert_close(logits, in_target_ids(head, data["chain_logits"]))

    @pytest.mark.parametrize("name", _SPECULATORS)
    @pytest.mark.parametrize("last", [0, 3, 6])
    def test_three_steps_of_a_speculators_head(self, name: str, last: int, tmp_path: Path) -> None:
        head, data = recorded(name, tmp_path)
        ids, states = data["token_ids"], data["states"]
        run = head.start(16)
        steps = [
            run.begin(ids[: last + 1], states[: last + 1]),
            run.go_on(ids[last + 1 : last + 2]),
            run.go_on(ids[last + 2 : last + 3]),
        ]
        rows = torch.stack([data[each][last] for each in ("logits", "second", "third")])
        assert_close(torch.cat(steps), in_target_ids(head, rows))

    @pytest.mark.parametrize(
        "change",
        [
            {"shift_ids": 0},
            {"embedding_first": False},
            {"norm_before_residual": True},
            {"recycle_normed": True},
        ],
        ids=str,
    )
    def test_wrong_setting_changes_the_logits(self, change: dict[str, Any], tmp_path: Path) -> None:
        head, data = recorded("eagle3_official", tmp_path)
        run = head.with_settings(replace(head.settings, **change)).start(16)
        _, logits = chain(run, run.begin(data["token_ids"], data["states"]), 2)
        expected = in_target_ids(head, data["chain_logits"])[:2]
        proposable = head.proposable
        assert (logits - expected)[:, proposable].abs().max() > 0.05


class TestIdentities:
    @pytest.mark.parametrize("kind", ["eagle", "eagle3"])
    def test_chain_equals_replay_with_the_heads_own_states(self, kind: str, tmp_path: Path) -> None:
        """A target whose output matrix is the identity shows the head's states as logits."""
        target = replace(tiny_target(), output=lambda x: F.pad(x, (0, VOCABULARY - WIDTH)))
        if kind == "eagle":
            head = opened(write_eagle(tmp_path), target)
        else:
            flags = {"use_aux": False, "output": False, "draft_vocabulary": VOCABULARY}
            head = opened(write_eagle3(tmp_path, **flags), target)
            head = head.with_settings(replace(head.settings, recycle_normed=True))
        ids, states = random_rows(6, WIDTH)
        run = head.start(16)
        own = run.begin(ids, states)
        tokens, logits = chain(run, own, 4)
        replayed_ids = torch.cat((ids, tokens[:3]))
        replayed_states = torch.cat((states, logits[:3, :WIDTH]))
        replayed = head.start(16).begin(replayed_ids, replayed_states)
        assert_close(replayed, logits[3:])

    @pytest.mark.parametrize("cuts", [(1, 8), (4, 5), (3, 3, 3)], ids=str)
    @pytest.mark.parametrize("layers", [1, 2])
    def test_incremental_equals_full(
        self, cuts: tuple[int, ...], layers: int, tmp_path: Path
    ) -> None:
        head = opened(write_eagle3(tmp_path, layers=layers))
        ids, states = random_rows(9, 3 * WIDTH)
        full = head.start(9).begin(ids, states)
        run = head.start(9)
        parts = zip(ids.split(cuts), states.split(cuts), strict=True)
        logits = [run.begin(*part) for part in parts][-1]
        assert run.length == 9
        assert_close(logits, full)

    def test_full_vocabulary_with_a_map_equals_none(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, draft_vocabulary=VOCABULARY)
        ids, states = random_rows(4, 3 * WIDTH)
        plain = opened(folder)
        maps = {
            "d2t": torch.zeros(VOCABULARY, dtype=torch.long),
            "t2d": torch.ones(VOCABULARY, dtype=torch.bool),
        }
        change_tensors(folder, lambda tensors: tensors.update(maps))
        mapped = opened(folder)
        assert mapped.proposable is None
        assert_close(
            mapped.start(8).begin(ids, states), plain.start(8).begin(ids, states), tolerance=0
        )

    def test_saved_but_unset_maps_count_as_none(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, draft_vocabulary=VOCABULARY)
        maps = {
            "d2t": torch.zeros(VOCABULARY, dtype=torch.long),
            "t2d": torch.zeros(VOCABULARY, dtype=torch.bool),
        }
        change_tensors(folder, lambda tensors: tensors.update(maps))
        assert opened(folder).proposable is None

    def test_order_of_the_draft_vocabulary_does_not_matter(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path)
        ids, states = random_rows(4, 3 * WIDTH)
        before = opened(folder).start(8).begin(ids, states)

        def permute(tensors: dict[str, torch.Tensor]) -> None:
            order = torch.randperm(DRAFT_VOCABULARY, generator=torch.Generator().manual_seed(2))
            count = torch.arange(DRAFT_VOCABULARY)
            tensors["lm_head.weight"] = tensors["lm_head.weight"][order]
            tensors["d2t"] = (tensors["d2t"] + count)[order] - count

        change_tensors(folder, permute)
        assert_close(opened(folder).start(8).begin(ids, states), before)

    def test_tokens_outside_the_draft_vocabulary_have_no_chance(self, tmp_path: Path) -> None:
        head = opened(write_eagle3(tmp_path))
        logits = head.start(8).begin(*random_rows(4, 3 * WIDTH))
        assert head.proposable is not None
        known = torch.zeros(VOCABULARY, dtype=torch.bool)
        known[head.proposable] = True
        assert logits.shape == (1, VOCABULARY)
        assert logits.dtype == torch.float32
        assert torch.equal(logits[0].isfinite(), known)

    def test_fc_that_selects_the_last_state_equals_a_head_without_fc(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path)
        ids, states = random_rows(5, 3 * WIDTH)
        select = torch.cat((torch.zeros(WIDTH, 2 * WIDTH), torch.eye(WIDTH)), 1)
        change_tensors(folder, lambda tensors: tensors.update({"fc.weight": select}))
        selected = opened(folder).start(8).begin(ids, states)
        change_tensors(folder, lambda tensors: tensors.pop("fc.weight"))
        change_config(folder, eagle_config={"use_aux_hidden_state": False})
        bare = opened(folder)
        assert bare.states.places == (AFTER_NORM,)
        last = states[:, 2 * WIDTH :]
        assert_close(bare.start(8).begin(ids, last), selected)

    def test_eagle1_without_attention_and_mlp_is_fc(self, tmp_path: Path) -> None:
        target = tiny_target()
        folder = write_eagle(tmp_path, fc_bias=True)
        tensors = change_tensors(folder, _without_layers)
        ids, states = random_rows(4, WIDTH)
        joined = torch.cat((target.embed(ids), states), -1)
        expected = target.output(F.linear(joined, tensors["fc.weight"], tensors["fc.bias"]))
        logits = opened(folder).start(8).begin(ids, states)
        assert_close(logits, expected[-1:])

    def test_eagle3_without_attention_and_mlp_is_the_normed_fc(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, draft_vocabulary=VOCABULARY)
        tensors = change_tensors(folder, _without_layers)
        ids, states = random_rows(4, 3 * WIDTH)
        fused = F.linear(states, tensors["fc.weight"])
        normed = F.rms_norm(fused, (WIDTH,), tensors["norm.weight"], 1e-5)
        expected = F.linear(normed, tensors["lm_head.weight"])
        logits = opened(folder).start(8).begin(ids, states)
        assert_close(logits, expected[-1:])


def _without_layers(tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()


class TestCache:
    @pytest.fixture
    def head(self, tmp_path: Path) -> EagleHead:
        return opened(write_eagle3(tmp_path))

    def test_begin_drops_speculative_rows(self, head: EagleHead) -> None:
        ids, states = random_rows(8, 3 * WIDTH)
        run = head.start(12)
        chain(run, run.begin(ids[:5], states[:5]), 4)
        assert run.length == 5
        logits = run.begin(ids[5:], states[5:])
        assert_close(logits, head.start(12).begin(ids, states))

    def test_forget_drops_rows_of_the_target(self, head: EagleHead) -> None:
        ids, states = random_rows(8, 3 * WIDTH)
        run = head.start(12)
        chain(run, run.begin(ids.flip(0), states.flip(0)), 3)
        run.forget(8)
        assert run.length == 0
        run.begin(ids[:6], states[:6])
        run.forget(2)
        assert run.length == 4
        logits = run.begin(ids[4:], states[4:])
        assert_close(logits, head.start(12).begin(ids, states))

    def test_runs_share_no_cache(self, head: EagleHead) -> None:
        ids, states = random_rows(8, 3 * WIDTH)
        first, second = head.start(12), head.start(12)
        first.begin(ids[:4], states[:4])
        second.begin(ids.flip(0), states.flip(0))
        logits = first.begin(ids[4:], states[4:])
        assert_close(logits, head.start(12).begin(ids, states))

    def test_unshifted_ids_survive_rounds(self, head: EagleHead) -> None:
        """Without the shift, a row embeds the token of the row before."""
        ids, states = random_rows(8, 3 * WIDTH)
        unshifted = head.with_settings(replace(head.settings, shift_ids=0))
        run = unshifted.start(12)
        run.begin(ids[:4], states[:4])
        run.go_on(ids[:1])
        logits = run.begin(ids[4:], states[4:])
        by_hand = head.start(12).begin(torch.cat((ids[:1], ids[:-1])), states)
        assert_close(logits, by_hand)

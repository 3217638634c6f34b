"""EAGLE-3 heads against the package speculators, which ``make head-oracles`` installs.

Run with ``python -m tests.engine.heads.check_speculators``. Random tiny heads are written in the
package's format. Its forward pass and ours must give the same states, logits and
greedy chains. ``--record`` rewrites the files in ``recorded/`` that the tests compare with. Prints
figures; exits with 1 if one is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from specviz.engine.heads.eagle import EagleHead, EagleRun
from tests.engine.heads.tiny_heads import (
    VOCABULARY,
    WIDTH,
    opened,
    random_rows,
    tiny_target,
    write_eagle3,
)

RECORDED = Path(__file__).parent / "recorded"
TOLERANCE = 1e-5
ROWS, STEPS = 9, 3
_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
# What each head is written with. The first two are recorded under these names.
HEADS: dict[str, dict[str, Any]] = {
    "speculators_llama": {
        "norm_output": True, "norm_before_fc": True, "layers": 2, "bias": True, "seed": 7,
        "layer_config": {"rope_parameters": _LLAMA3},
    },
    "speculators_qwen3": {
        "fc_norm": True, "query_norms": True, "norm_before_residual": False, "seed": 8,
        "layer_config": {"model_type": "qwen3"},
    },
    "own embedding": {"own_embedding": True, "norm_before_residual": True, "seed": 9},
    "full vocabulary": {"draft_vocabulary": VOCABULARY, "norm_output": True, "seed": 10},
}  # fmt: skip


def main(record: bool) -> int:
    wrong = 0
    for name, settings in HEADS.items():
        with TemporaryDirectory() as folder:
            head = write_eagle3(Path(folder, "head"), layout="speculators", **settings)
            oracle, ours = Oracle(head), opened(head)
            difference, chains = compare(oracle, ours)
            right = difference < TOLERANCE and chains == len(LASTS)
            wrong += not right
            print(
                f"{name}: largest difference {difference:.1e}, {chains} of {len(LASTS)} chains "
                f"equal{'' if right else '  WRONG'}",
                flush=True,
            )
            if record and name.startswith("speculators_"):
                oracle.record(RECORDED / f"{name}.safetensors")
    return int(wrong > 0)


class Oracle:
    """The package's model of a head."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.weights = folder, load_file(folder / "model.safetensors")
        stated = json.loads((folder / "config.json").read_text())
        for name in ("speculators_config", "architectures"):
            stated.pop(name, None)
        config = import_module("speculators.models.eagle3.config").Eagle3SpeculatorConfig(**stated)
        config.transformer_layer_config._attn_implementation = "eager"
        self.model = import_module("speculators.models.eagle3.core").Eagle3DraftModel(config)
        self.model = self.model.float().eval()
        _, unexpected = self.model.load_state_dict(self.weights, strict=False)
        assert not unexpected, unexpected
        if "embed_tokens.weight" not in self.weights:
            self.model.embed_tokens.weight.data = tiny_target().embed(torch.arange(VOCABULARY))

    @torch.no_grad()
    def steps(
        self, token_ids: torch.Tensor, states: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return the states before the final norm and the logits of each step, `[row, …]`."""
        with _seen(self.model.norm, inputs=True) as before, _seen(self.model.lm_head) as logits:
            positions = torch.zeros(1, len(token_ids), dtype=torch.long)
            self.model(states[None], token_ids[None], positions, ttt_steps=STEPS)
        return before[:STEPS], logits[:STEPS]

    def in_target_ids(self, draft_ids: torch.Tensor) -> torch.Tensor:
        shift = self.weights.get("d2t")
        return draft_ids if shift is None else draft_ids + shift[draft_ids]

    def record(self, path: Path) -> None:
        ids, states = random_rows(ROWS, 3 * WIDTH)
        _, logits = self.steps(ids, states)
        found = {f"head.{name}": each for name, each in self.weights.items()}
        found |= {"token_ids": ids, "states": states}
        found |= dict(zip(("logits", "second", "third"), logits, strict=True))
        save_file(found, path, metadata={"config": (self.folder / "config.json").read_text()})


LASTS = (0, 3, 6)  # rows after which a chain begins


def compare(oracle: Oracle, head: EagleHead) -> tuple[float, int]:
    """Return the largest difference of states and logits, and how many greedy chains agree."""
    ids, states = random_rows(ROWS, 3 * WIDTH)
    worst, equal = 0.0, 0
    for last in LASTS:
        worst = max(worst, _difference(oracle, head, ids, states, last))
        theirs = _their_chain(oracle, ids, states, last)
        equal += _our_chain(head, ids[: last + 1], states[: last + 1]) == theirs
    return worst, equal


def _difference(
    oracle: Oracle, head: EagleHead, ids: torch.Tensor, states: torch.Tensor, last: int
) -> float:
    before, logits = oracle.steps(ids, states)
    run, norm = head.start(ROWS + STEPS), head.weights.norm
    assert norm is not None
    worst = 0.0
    for step in range(STEPS):
        if step == 0:
            ours = run.begin(ids[: last + 1], states[: last + 1])
        else:
            ours = run.go_on(ids[last + step : last + step + 1])
        known = slice(None) if head.proposable is None else head.proposable
        theirs = before[step][last]
        state = norm(theirs) if head.settings.recycle_normed else theirs
        pairs = ((ours[0, known], logits[step][last]), (_state(run)[0], state))
        worst = max(worst, *(float((one - two).abs().max()) for one, two in pairs))
    return worst


def _state(run: EagleRun) -> torch.Tensor:
    """Return the state that a run continues from."""
    found = run._state
    assert found is not None
    return found


def _our_chain(head: EagleHead, ids: torch.Tensor, states: torch.Tensor) -> list[int]:
    run = head.start(ROWS + STEPS)
    chain = [run.begin(ids, states).argmax(-1)]
    while len(chain) < STEPS:
        chain.append(run.go_on(chain[-1]).argmax(-1))
    return torch.cat(chain).tolist()


def _their_chain(oracle: Oracle, ids: torch.Tensor, states: torch.Tensor, last: int) -> list[int]:
    """Return a chain from the package, whose later steps read the given tokens."""
    ids, chain = ids.clone(), list[int]()
    for step in range(STEPS):
        _, logits = oracle.steps(ids, states)
        chosen = oracle.in_target_ids(logits[step][last].argmax())
        chain.append(int(chosen))
        if last + step + 1 < len(ids):
            ids[last + step + 1] = chosen
    return chain


@contextmanager
def _seen(module: Any, *, inputs: bool = False) -> Iterator[list[torch.Tensor]]:
    """Collect the outputs, or the first inputs, of a module, without the batch axis."""
    found = list[torch.Tensor]()

    def keep(_module: Any, given: Any, output: Any) -> None:
        found.append((given[0] if inputs else output).detach()[0].clone())

    hook = module.register_forward_hook(keep)
    try:
        yield found
    finally:
        hook.remove()


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(record="--record" in sys.argv[1:]))

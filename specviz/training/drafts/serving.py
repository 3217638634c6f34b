"""Terminal commands that serve a target with a trained draft in another engine."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Literal

from specviz.values import Value

Engine = Literal["vLLM", "SGLang", "llama.cpp"]
TARGET_GGUF = "TARGET.gguf"  # where the target's GGUF file is not known


class ServingCommand(Value):
    engine: Engine
    text: str


def vllm_command(target: str, draft: Path, method: str, gamma: int) -> ServingCommand:
    """Return the command that starts vLLM with the draft.

    Args:
        target: The target's folder or Hub id.
        draft: The folder of the draft.
        method: "eagle3", "medusa" or "draft_model".
        gamma: The number of candidates per round.
    """
    config = {"method": method, "model": str(draft), "num_speculative_tokens": gamma}
    return _command("vLLM", "vllm", "serve", target, "--speculative-config", json.dumps(config))


def sglang_command(target: str, draft: Path, gamma: int) -> ServingCommand:
    """Return the command that makes SGLang draft chains with an EAGLE-3 head.

    SGLang counts the last emitted token as a draft token, so a round has gamma + 1 draft tokens.
    """
    return _command(
        "SGLang",
        *("python", "-m", "sglang.launch_server", "--model-path", target),
        *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(draft)),
        *("--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(gamma + 1)),
    )


def llamacpp_command(target: str, draft: Path, method: str, gamma: int) -> ServingCommand:
    """Return the command that starts llama.cpp's server with the draft.

    Args:
        target: The target's GGUF file; anything else is replaced by a placeholder.
        draft: The draft's GGUF file.
        method: "draft-eagle3" or "draft-simple".
        gamma: The number of candidates per round.
    """
    file = target if target.endswith(".gguf") else TARGET_GGUF
    return _command(
        "llama.cpp",
        *("llama-server", "--model", file, "--spec-type", method),
        *("--spec-draft-model", str(draft), "--spec-draft-n-max", str(gamma), "--metrics"),
    )


def _command(engine: Engine, *words: str) -> ServingCommand:
    return ServingCommand(engine=engine, text=shlex.join(words))

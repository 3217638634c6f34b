"""Reward models: sequence classifiers with one output, which score a prompt with its answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from specviz.engine.loading.folder_source import FolderSource
from specviz.engine.loading.hub import fetch_small_files
from specviz.engine.loading.source import LOCAL
from specviz.engine.loading.sources import refuse_missing_path
from specviz.engine.model.chat_template import render_chat
from specviz.engine.model.libraries import loading_errors, quiet_libraries
from specviz.errors import PairError
from specviz.record.conversations import Message


class RewardModel:
    """A loaded reward model.

    If the tokenizer has a chat template, the model reads the whole conversation. Otherwise, it
    reads the prompt and the answer as two segments. Texts longer than the model's context are
    truncated.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self._name, self._model, self._tokenizer = name, model, tokenizer

    @torch.inference_mode()
    def score(self, prompt: str, answer: str, messages: Sequence[Message]) -> float:
        """Return the score of an answer; ``messages``: the conversation including this answer."""
        read = self._read(prompt, answer, messages)
        inputs = {name: value.to(self._model.device) for name, value in read.items()}
        return float(self._model(**inputs).logits[0, 0])

    def _read(self, prompt: str, answer: str, messages: Sequence[Message]) -> Any:
        limit = getattr(self._model.config, "max_position_embeddings", None)
        cut: dict[str, Any] = {"truncation": True, "max_length": limit} if limit else {}
        if getattr(self._tokenizer, "chat_template", None):
            text = render_chat(self._tokenizer, self._name, messages, answered=True)
            return self._tokenizer(text, add_special_tokens=False, return_tensors="pt", **cut)
        return self._tokenizer(prompt, answer, return_tensors="pt", **cut)


def load_reward_model(name: str, device: torch.device) -> RewardModel:
    """Return the reward model in a folder or on the Hub.

    Only safetensors files are read, and no code from the folder is run.

    Raises:
        PairError: the model cannot be loaded, or it is not a classifier with one trained output.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = _fetched(name)
    with quiet_libraries(), loading_errors(name, "reward model"):
        model, loaded = AutoModelForSequenceClassification.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **LOCAL
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL)
    if loaded["missing_keys"] or loaded["mismatched_keys"]:
        missing = ", ".join(sorted(map(str, loaded["missing_keys"]))[:3]) or "a matching shape"
        raise PairError(
            f"{name} is not a reward model: it lacks {missing}.", remedy="Give a reward model."
        )
    if model.config.num_labels != 1:
        raise PairError(
            f"{name} has {model.config.num_labels} outputs; a reward model has one.",
            remedy="Give a reward model.",
        )
    return RewardModel(name, model.eval().to(device), tokenizer)


def _fetched(name: str) -> Path:
    """Return the folder of a model; a model on the Hub is downloaded first."""
    if Path(name).is_dir():
        return Path(name)
    refuse_missing_path(name, name)
    folder = fetch_small_files(name, lambda _: None)
    FolderSource(name=name, folder=folder, config={}, hub_id=name).fetch_weights(lambda _: None)
    return folder

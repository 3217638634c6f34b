"""A model in a folder, or in the Hub cache: configuration, tokenizer files and safetensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open

from specviz.engine.loading import hub
from specviz.engine.loading.model_config import read_object, refuse_gguf_files
from specviz.engine.loading.reduced_source import reduced_loader
from specviz.engine.loading.source import LOCAL, Source
from specviz.errors import PairError
from specviz.formats.model_folder import SAME_DECODER, TEXT_WEIGHTS
from specviz.formats.reduced_drafts import proposed_count
from specviz.record.pairs import ProgressCallback

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Config

_CONFIG = "config.json"
_OWN_CODE = ("model_type", "auto_map")  # entries that name the family and its code
_SINGLE = "model.safetensors"
_SMALL_FILES = (_CONFIG, "tokenizer.json")
_INDEX = "model.safetensors.index.json"
_TOKENIZER_FILES = ("tokenizer.json", "*.model", "vocab.json", "vocab.txt", "*.tiktoken")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource(Source):
    """A model folder; the weights of a Hub model may not be downloaded yet."""

    folder: Path
    hub_id: str | None = None

    @property
    def commit(self) -> str:
        """Return the Hub model's commit; configuration and weights must have the same commit."""
        return self.folder.name

    def bytes_to_fetch(self, on_progress: ProgressCallback) -> int:
        if self.hub_id is None or self._has_weights():
            return 0
        files = hub.list_weights(self.hub_id, self.commit, on_progress)
        if not files:
            self._refuse_without_safetensors()
        return sum(file.file_size or 0 for file in files if file.will_download)

    def fetch_weights(self, on_progress: ProgressCallback) -> tuple[Path, ...]:
        if self.hub_id is not None and not self._has_weights():
            missing = self.bytes_to_fetch(on_progress)
            hub.fetch_weights(self.hub_id, self.commit, missing, on_progress)
        return self.weight_files()

    def weight_files(self) -> tuple[Path, ...]:
        files = self._named_weights()
        for file in files:
            _check_whole(self.name, file)
        return files

    def identifying_files(self, weights: tuple[Path, ...]) -> tuple[Path, ...]:
        return (*weights, *(self.folder / name for name in (_SINGLE, _INDEX, *_SMALL_FILES)))

    def read_config(self) -> Config:
        from transformers import AutoConfig

        if decoder := SAME_DECODER.get(self.family):
            stated = read_object(self.folder / _CONFIG)
            given = {name: each for name, each in stated.items() if name not in _OWN_CODE}
            return AutoConfig.for_model(decoder, **given)
        config: Any = AutoConfig.from_pretrained(self.folder, **LOCAL)
        if config.model_type not in TEXT_WEIGHTS:
            return config
        if getattr(config, "quantization_config", None) is not None:
            raise PairError(  # the text model's configuration does not state the quantisation
                f"{self.name} is quantised and also reads images; such models are not supported.",
                remedy="Choose an unquantised copy or a GGUF file of the model.",
            )
        return config.get_text_config()

    def read_tokenizer(self) -> Any:
        """Return the tokenizer; raise PairError if the tokenizer's files are missing.

        Without this check, transformers would silently create an empty tokenizer.
        """
        if not any(any(self.folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
            raise PairError(
                f"{self.name} has no tokenizer files.",
                remedy="Put the tokenizer.json and the tokenizer_config.json beside the weights.",
            )
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder, **LOCAL)

    def _loader(
        self, config: Any, dtype: torch.dtype, report: Callable[[int, int], None]
    ) -> Callable[..., Any]:
        from transformers import AutoModelForCausalLM

        del config, dtype, report  # transformers reports no progress
        stated = read_object(self.folder / _CONFIG)
        if proposed_count(stated) is not None:
            return reduced_loader(self._named_weights(), self.name)
        renamed = TEXT_WEIGHTS.get(stated["model_type"], {})
        names = {f"^{re.escape(prefix)}": own for prefix, own in renamed.items()} or None
        load = AutoModelForCausalLM.from_pretrained
        return partial(load, self.folder, use_safetensors=True, key_mapping=names, **LOCAL)

    def _has_weights(self) -> bool:
        try:
            return all(file.is_file() for file in self._named_weights())
        except PairError:
            return False

    def _named_weights(self) -> tuple[Path, ...]:
        single, index = self.folder / _SINGLE, self.folder / _INDEX
        if single.is_file():
            return (single,)
        if not index.is_file():
            self._refuse_without_safetensors()
        try:
            names = sorted(set(read_object(index)["weight_map"].values()))
            if any(Path(name).name != name for name in names):
                raise ValueError("a weights file outside the model's folder")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PairError(
                f"The {_INDEX} of {self.name} is broken.", remedy="Copy or download the file again."
            ) from None
        return tuple(self.folder / str(name) for name in names)

    def _refuse_without_safetensors(self) -> NoReturn:
        pickles = sorted(self.folder.glob("pytorch_model*.bin*"))
        if pickles:
            raise PairError(
                f"{self.name} holds a pickle checkpoint ({pickles[0].name}), which could run code "
                "and is never loaded.",
                remedy="Convert the checkpoint to safetensors, or choose a copy in safetensors.",
            )
        refuse_gguf_files(self.folder, self.name)
        raise PairError(
            f"{self.name} has no weights in safetensors files.",
            remedy="Choose a model with model.safetensors, or convert the checkpoint.",
        )


def _check_whole(name: str, file: Path) -> None:
    if not file.is_file():
        raise PairError(
            f"{name} lacks its weights file {file.name}.",
            remedy="Copy or download the model again.",
        )
    try:
        with safe_open(file, framework="np"):  # torch would allocate memory of the file's size
            pass
    except (SafetensorError, OSError) as error:
        raise PairError(
            f"The weights file {file.name} of {name} is truncated or broken.",
            remedy="Copy or download the file again.",
        ) from error

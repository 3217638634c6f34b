"""A drafting head in a folder or on the Hub, or in the target's own files."""

from __future__ import annotations

import os
from pathlib import Path

from specviz.engine.loading import hub
from specviz.engine.loading.sources import refuse_missing_path
from specviz.errors import PairError
from specviz.formats.heads import HeadFacts, read_head
from specviz.record.pairs import ProgressCallback, is_address
from specviz.values import Value

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "medusa_lm_head.pt", "mask_embedding.pt")
_OTHER_FILES = ("config.json", "mask_embedding.pt")


class HeadSource(Value):
    """A head's files; its weights may still have to be downloaded."""

    name: str
    folder: Path
    hub_id: str | None = None

    def bytes_to_fetch(self, on_progress: ProgressCallback) -> int:
        if self.hub_id is None or any(self.folder.glob(each) for each in _WEIGHTS):
            return 0
        files = hub.list_weights(self.hub_id, self.folder.name, on_progress, _WEIGHTS)
        return sum(file.file_size or 0 for file in files if file.will_download)

    def fetch(self, on_progress: ProgressCallback) -> HeadFacts:
        """Download the weights if necessary; return the head's type and settings from its files."""
        if missing := self.bytes_to_fetch(on_progress):
            assert self.hub_id is not None
            hub.fetch_weights(self.hub_id, self.folder.name, missing, on_progress, _WEIGHTS)
        return self.facts()

    def identifying_files(self) -> tuple[Path, ...]:
        """Return the files from which the head is loaded."""
        others = (self.folder / name for name in _OTHER_FILES)
        return (*self.facts().weights, *(each for each in others if each.is_file()))

    def facts(self) -> HeadFacts:
        """Return the head's type and settings, read from its files.

        Raises:
            PairError: There is no head in the folder, or its files are damaged.
        """
        facts = read_head(self.folder)
        if facts is None:
            raise PairError(
                f"{self.name} is not a drafting head.",
                remedy="Give the folder of an EAGLE, Medusa or DFlash head, or use drafter=model.",
            )
        return facts


def open_head_source(place: str, name: str, on_progress: ProgressCallback) -> HeadSource:
    """Return the head in a folder or on the Hub; download the configuration of a Hub head."""
    folder = os.path.expanduser(place)
    if os.path.isdir(folder):
        return HeadSource(name=name, folder=Path(folder))
    if is_address(place) or os.path.exists(folder):
        raise PairError(
            f"{name} is not the folder of a drafting head.", remedy="Give a folder or a Hub id."
        )
    refuse_missing_path(place, name)
    return HeadSource(name=name, folder=hub.fetch_small_files(place, on_progress), hub_id=place)

"""Load a pair of two folders on one thread, and read the error message if it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specviz.engine.loading.loading import load_pair
from specviz.engine.model.pair import Pair
from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec, ProgressCallback


def load(folder: Path, *, progress: ProgressCallback | None = None, **settings: Any) -> Pair:
    asked: dict[str, Any] = {"draft": f"{folder / 'draft'}", "target": f"{folder / 'target'}"}
    asked |= {"threads": 1, **settings}
    return load_pair(PairSpec(**asked), progress=progress)


def refusal(kind: type[SpecvizError], folder: Path, **settings: Any) -> str:
    """The one-line message that the user reads, without output of the libraries."""
    with pytest.raises(kind) as caught:
        load(folder, **settings)
    message = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in message
    assert len(message) < 420
    assert message.endswith(".")
    return message


def edit_json(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))

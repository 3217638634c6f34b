"""Ask for a pair of two folders on one thread; and read what the user reads when refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.engine.loading.loading import load_pair
from specviz.engine.model.pair import Pair
from specviz.errors import SpecvizError


def load(folder: Path, **settings: object) -> Pair:
    given = {"draft": str(folder / "draft"), "target": str(folder / "target"), "threads": 1}
    return load_pair(**(given | settings))  # pyright: ignore[reportArgumentType]


def refusal(kind: type[SpecvizError], folder: Path, **settings: object) -> str:
    """The one line that the user reads, the words of the libraries not among them."""
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

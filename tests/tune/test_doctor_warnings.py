"""The doctor warns if the chat template is not the head's."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.tune.doctor_warnings import head_warnings
from tests.engine.heads.tiny_heads import change_config, write_eagle3

OURS, THEIRS = "{{ messages }}", "{{ messages }} by others"
LACKS = "written without it"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return write_eagle3(tmp_path / "head")


def warned(folder: Path, template: Any, *, chat: bool, named: str = "", weights: str = "") -> str:
    target, head = folder.parent / "target" / "config.json", folder / "config.json"
    pair: Any = SimpleNamespace(
        head=SimpleNamespace(),
        info=SimpleNamespace(
            target=SimpleNamespace(name="org/tiny", weights=weights),
            draft=SimpleNamespace(head=SimpleNamespace(named_target=named)),
        ),
        tokenizer=SimpleNamespace(chat_template=template),
        stamps={target: 1, head: 2},
    )
    return " ".join(head_warnings(pair, chat=chat))


def write_config(folder: Path, template: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))


def test_nothing_is_said_of_a_head_without_a_tokenizer(folder: Path) -> None:
    assert warned(folder, None, chat=False) == ""
    assert warned(folder, OURS, chat=True) == ""


def test_texts_without_the_targets_template(folder: Path) -> None:
    assert LACKS in warned(folder, OURS, chat=False)


@pytest.mark.parametrize("stored", ["file", "config", "named"])
def test_another_template(stored: str, folder: Path) -> None:
    def write(template: str) -> None:
        if stored == "file":
            (folder / "chat_template.jinja").write_text(template)
        elif stored == "config":
            write_config(folder, template)
        else:
            write_config(folder, [{"name": "default", "template": template}])

    write(f"{OURS}\n")
    assert warned(folder, OURS, chat=True) == ""
    assert warned(folder, {"default": OURS, "tools": THEIRS}, chat=True) == ""
    write(THEIRS)
    assert "head's files differs" in warned(folder, OURS, chat=True)
    assert "the target has none" in warned(folder, None, chat=False)


def test_a_template_for_a_head_without_one(folder: Path) -> None:
    write_config(folder, None)
    assert "the head's tokenizer has none" in warned(folder, OURS, chat=True)
    assert warned(folder, None, chat=False) == ""


def test_damaged_files_are_no_reason_to_warn(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")
    assert warned(folder, OURS, chat=True) == ""
    change_config(folder, speculators_model_type="peagle")
    assert warned(folder, OURS, chat=True) == ""


def test_another_target_and_quantised_weights(folder: Path) -> None:
    found = warned(folder, None, chat=False, named="org/large", weights="q4_0")
    assert "name the target org/large" in found
    assert "quantised (q4_0)" in found

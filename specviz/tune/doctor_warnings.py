"""Warnings about possible causes of low acceptance other than a head's settings.

The causes are the target, its quantisation and the chat template.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.errors import ModelFileError
from specviz.formats.heads import read_head
from specviz.formats.model_folder import read_object

if TYPE_CHECKING:
    from specviz.engine import Pair

_FILE, _CONFIG, _KEY = "chat_template.jinja", "tokenizer_config.json", "chat_template"
_LONGEST = 1 << 20  # characters of a template


def head_warnings(pair: Pair, *, chat: bool) -> tuple[str, ...]:
    """Return a sentence for each possible cause of low acceptance.

    ``chat``: whether the texts are written with the chat template.
    """
    assert pair.head is not None
    found, draft = list[str](), pair.info.draft
    if draft is not None and draft.head is not None and draft.head.named_target:
        found.append(
            f"The head's files name the target {draft.head.named_target}; this target is "
            f"{pair.info.target.name}."
        )
    if pair.info.target.weights:
        found.append(
            f"The target's weights are quantised ({pair.info.target.weights}); the head may have "
            "been trained for the unquantised target."
        )
    return (*found, *_about_template(pair, chat))


def _about_template(pair: Pair, chat: bool) -> Iterator[str]:
    own = _templates(getattr(pair.tokenizer, _KEY, None))
    if own and not chat:
        yield (
            "The target has a chat template, but the texts are written without it. A head that was "
            "trained on chats drafts worse on such texts."
        )
    folder = _head_folder(pair)
    theirs = None if folder is None else _templates_in(folder)
    if theirs is None:
        return
    if theirs and not own:
        yield "The head's files have a chat template, but the target has none."
    elif theirs and not theirs & own:
        yield (
            "The chat template in the head's files differs from the target's; the head may have "
            "been trained with its own template."
        )
    elif chat and not theirs:
        yield (
            "The texts are written with the target's chat template, but the head's tokenizer has "
            "none."
        )


def _head_folder(pair: Pair) -> Path | None:
    """Return the folder of the head's own files; None for a head inside the target's files."""
    for folder in dict.fromkeys(file.parent for file in pair.stamps):
        try:
            if read_head(folder) is not None:
                return folder
        except ModelFileError:
            continue
    return None


def _templates_in(folder: Path) -> frozenset[str] | None:
    """Return the chat templates in a folder; None if it has no tokenizer files."""
    if (folder / _FILE).is_file():
        try:
            return _templates((folder / _FILE).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
    if not (folder / _CONFIG).is_file():
        return None
    try:
        return _templates(read_object(folder / _CONFIG).get(_KEY))
    except ModelFileError:
        return None


def _templates(found: Any) -> frozenset[str]:
    """Return the template texts in ``found``, which is one text, or several named texts."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        found = [each.get("template") if isinstance(each, dict) else each for each in found]
    texts = found if isinstance(found, list) else [found]
    return frozenset(
        each.strip() for each in texts if isinstance(each, str) and 0 < len(each.strip()) < _LONGEST
    )

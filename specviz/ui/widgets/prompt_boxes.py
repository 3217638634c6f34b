"""The prompt controls of a page: a preset and a text, kept in sync.

Both controls have ``persist_state``, so they keep their values when the user leaves the page.
``persist_state`` also protects a value that the script sets: Streamlit repeats the value until the
browser has received it. Otherwise, a script run that is interrupted early would lose the value, and
the browser would report an empty prompt, as if the user had typed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from specviz.errors import ConfigError
from specviz.record.prompts import (
    CHAT_PROMPTS,
    MAX_SUITE_BYTES,
    PRESETS,
    SHIPPED_SUITES,
    Preset,
    SuiteItem,
    read_chat_prompts,
    read_presets,
    read_suite,
    typed_suite,
)
from specviz.ui.session.tabs import OPEN_PAGE

TYPED, FILE = "Several prompts", "A file of mine"
_OWN = "custom prompt"
EARLIER = "messages before"  # session state: the earlier messages of the conversation on Watch


@dataclass(frozen=True, slots=True)
class PromptBoxes:
    """The prompt controls of a page, whose keys begin with ``prefix``.

    If ``linked``, the controls start with the link's values, and put a chosen preset into the
    link. A custom prompt is never added to the link automatically: the user decides whether to
    share it. If not ``linked``, the controls start with the prompt of Watch, unless it belongs to
    a conversation. Later, a button copies the prompt of Watch.
    """

    prefix: str = ""
    linked: bool = False

    @property
    def _preset(self) -> str:
        return f"{self.prefix}preset"

    @property
    def _prompt(self) -> str:
        return f"{self.prefix}prompt"

    @property
    def _page(self) -> str:
        return f"{self.prefix}page of the prompt"

    def choose(self, changed: Callable[[], None] = lambda: None, *, chat: bool = False) -> str:
        """Draw the controls and return the prompt.

        Args:
            changed: Called when the user edits the prompt.
            chat: Whether to offer messages for a chat model. They are listed before texts to
                continue.
        """
        self.settle()
        self._fit(chat)
        texts = _preset_texts()
        offered = _names(chat)
        if (chosen := st.session_state[self._preset]) not in (*offered, _OWN):
            offered = [chosen, *offered]

        def fill() -> None:
            chosen = st.session_state[self._preset]
            if chosen in texts:
                st.session_state[self._prompt] = texts[chosen]
            changed()

        def own() -> None:
            if st.session_state[self._prompt] != texts.get(st.session_state[self._preset]):
                st.session_state[self._preset] = _OWN
            changed()

        st.selectbox(
            "Prompt", [*offered, _OWN], key=self._preset, on_change=fill, persist_state="session"
        )
        prompt = st.text_area(
            "Prompt text", key=self._prompt, height=110, label_visibility="collapsed",
            on_change=own, persist_state="session",
        )  # fmt: skip
        if self.linked:
            _link(st.session_state[self._preset])
        elif self._can_take((st.session_state[self._preset], prompt), chat=chat):
            st.button(
                "Use the prompt of Watch", key=f"{self.prefix}take_prompt", type="tertiary",
                on_click=self._take_from_watch, args=(changed,),
            )  # fmt: skip
        return prompt

    def settle(self) -> str:
        """Set and return the prompt before its controls are drawn.

        The page keeps its previous prompt. On the first visit, the prompt comes from the link or
        from Watch. If neither gives a prompt, it is the first preset.
        """
        state, page = st.session_state, st.session_state.get(OPEN_PAGE)
        if self._preset not in state or self._prompt not in state:
            state[self._preset], state[self._prompt] = self._first()
        elif state.get(self._page) != page:
            # Until the browser has sent a value that the script set, Streamlit draws the controls
            # of another page without it.
            for key in (self._preset, self._prompt):
                state[key] = state[key]
        state[self._page] = page
        return state[self._prompt]

    def _fit(self, chat: bool) -> None:
        """Replace the default prompt for text by the default prompt for chat, or vice versa."""
        ours, theirs = (_names(each)[0] for each in (chat, not chat))
        if st.session_state[self._preset] == theirs:
            st.session_state[self._preset] = ours
            st.session_state[self._prompt] = _preset_texts()[ours]

    def put(self, prompt: str) -> None:
        """Fill the controls with a prompt; call this before they are drawn."""
        titles = {text: title for title, text in _preset_texts().items()}
        st.session_state[self._preset] = titles.get(prompt, _OWN)
        st.session_state[self._prompt] = prompt

    def _first(self) -> tuple[str, str]:
        texts = _preset_texts()
        if not self.linked:
            return self._of_watch() or next(iter(texts.items()))
        prompt = st.query_params.get("prompt")
        if prompt is not None:
            return _OWN, prompt
        preset = st.query_params.get("preset", "")
        return (preset, texts[preset]) if preset in texts else next(iter(texts.items()))

    def _of_watch(self) -> tuple[str, str] | None:
        """Return the preset and the prompt of Watch.

        The result is None if Watch has no prompt, or if its prompt belongs to a conversation.
        """
        state, watch = st.session_state, PromptBoxes()
        if not state.get(watch._prompt) or watch._preset not in state or state.get(EARLIER):
            return None
        return state[watch._preset], state[watch._prompt]

    def _can_take(self, own: tuple[str, str], *, chat: bool) -> bool:
        """Return whether to offer the prompt of Watch.

        Watch's prompt is offered if it differs from ``own`` and if ``_fit`` would not replace it.
        """
        theirs = self._of_watch()
        return theirs is not None and theirs != own and theirs[0] != _names(not chat)[0]

    def _take_from_watch(self, changed: Callable[[], None]) -> None:
        if (found := self._of_watch()) is not None:
            st.session_state[self._preset], st.session_state[self._prompt] = found
            changed()


def uploaded_items(key: str) -> tuple[SuiteItem, ...]:
    """Draw a file uploader, and return the prompts of the file; empty without a file.

    Raises:
        SpecvizError: The file is not a suite of prompts.
    """
    file = st.file_uploader(
        "JSONL: one object per line, with a prompt and, optionally, the prompt's kind",
        type=["jsonl", "json", "txt"], key=key, max_upload_size=max(1, MAX_SUITE_BYTES // 10**6),
    )  # fmt: skip
    if file is None:
        return ()
    try:
        text = file.getvalue().decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{file.name} is not UTF-8 text.", remedy="Save it as UTF-8.") from None
    return read_suite(text, file.name)


def typed_items(key: str) -> tuple[SuiteItem, ...]:
    """Draw a text area, and return the prompts in its text; return none if it is empty.

    Raises:
        SpecvizError: There are too many prompts, or one is too long.
    """
    text = st.text_area(
        "Prompts, separated by a line of ---", key=typed_key(key), height=200,
        persist_state="session", placeholder="Summarise this mail: …\n---\nTranslate to German: …",
    )  # fmt: skip
    return typed_suite(text) if text.strip() else ()


def typed_key(key: str) -> str:
    """Return the key of the text area beside the uploader ``key``."""
    return f"{key}_typed"


OWN_SUITES = {TYPED: typed_items, FILE: uploaded_items}


def choose_items(key: str, *, chat: bool) -> tuple[str, tuple[SuiteItem, ...]]:
    """Draw the choice of prompts; return the suite's name and its prompts.

    Args:
        chat: Whether chat prompts are the default.

    Raises:
        SpecvizError: The user's own prompts cannot be used.
    """
    source = st.segmented_control(
        "Prompts", (PRESETS, CHAT_PROMPTS, TYPED, FILE), key=key,
        default=CHAT_PROMPTS if chat else PRESETS, wrap=True,
    )  # fmt: skip
    own = partial(OWN_SUITES.get(source or "", uploaded_items), f"{key}_file")
    return source or "", SHIPPED_SUITES.get(source or "", own)()


def _link(preset: str) -> None:
    if preset in (_OWN, _names(chat=True)[0], _names(chat=False)[0]):
        st.query_params.pop("preset", None)
    elif st.query_params.get("preset") != preset:
        st.query_params["preset"] = preset


def _preset_texts() -> dict[str, str]:
    """Return the texts of all presets by name; the first preset is a text to continue."""
    return {_name(each): each.text for each in (*read_presets(), *read_chat_prompts())}


def _names(chat: bool) -> list[str]:
    """Return the names of the presets to offer. If ``chat``, they include chat messages."""
    texts, messages = map(list, (map(_name, read_presets()), map(_name, read_chat_prompts())))
    return [*messages, *texts] if chat else texts


def _name(preset: Preset) -> str:
    return f"{preset.kind} · {preset.title}"

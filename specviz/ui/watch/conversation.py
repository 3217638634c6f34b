"""A chat on Watch: the system prompt, the messages so far, and the next message.

The prompt box contains the last message, so that a run with a changed setting answers it again.
This module stores the earlier messages. They belong to the tab and are not in the link.
"""

from __future__ import annotations

import streamlit as st

from specviz.record.conversations import Conversation, Message, TypedPrompt
from specviz.record.prompts import read_chat_prompts
from specviz.record.token_text import text_without_end
from specviz.record.trace import Trace
from specviz.ui.session.history import History
from specviz.ui.session.presses import press
from specviz.ui.widgets.prompt_boxes import EARLIER
from specviz.ui.widgets.run_controls import Choices, put_prompt

_SYSTEM, _NEXT = "system", "next_message"
_EARLY = "message before its answer"


def show_conversation(choices: Choices, history: History) -> None:
    """Draw the system prompt, the box for the next message, and a button to start over."""
    if not choices.config.chat:
        return
    st.text_input(
        "System prompt", key=_SYSTEM, persist_state="session",
        placeholder="The template's default", max_chars=2_000,
    )  # fmt: skip
    st.chat_input(
        "Next message", key=_NEXT, on_submit=_continue, args=(history,),
        max_chars=20_000,
    )  # fmt: skip
    if st.session_state.pop(_EARLY, False):
        st.caption(
            "Your last message has no answer yet. Press *Run* or wait, then send the new one."
        )
    if before := _before():
        with st.container(horizontal=True, vertical_alignment="center", key="conversation"):
            turns = sum(each.role == "user" for each in before)
            st.caption(f"Message {turns + 1} of a conversation.", width="content")
            st.button("New conversation", key="new_conversation", type="tertiary", on_click=_leave)


def asked_of(choices: Choices) -> TypedPrompt:
    """Return the next run's prompt. In a chat, it includes the system prompt and past messages."""
    if not choices.config.chat:
        return choices.prompt
    system = str(st.session_state.get(_SYSTEM) or "").strip()
    first = (Message(role="system", content=system),) if system else ()
    before = (*first, *(_before() or _before_of_preset(choices.prompt)))
    return Conversation(before=before, text=choices.prompt) if before else choices.prompt


def _continue(history: History) -> None:
    """Add the last message and its answer to the conversation. Request a run for the next message.

    If the last message has no answer yet, put the next message back into its box.
    """
    text = str(st.session_state.get(_NEXT) or "").strip()
    run, trace = history.current, history.shown().trace
    answered = run is not None and run.finished and trace.config.chat and trace.rounds
    if not text:
        return
    if not answered:
        st.session_state[_NEXT] = text  # puts the text back into the box
        st.session_state[_EARLY] = True
        return
    answer = Message(role="assistant", content=_answer(trace), rounds=len(trace.rounds))
    last = Message(role="user", content=trace.prompt.text)
    earlier = (each for each in trace.prompt.before if each.role != "system")
    st.session_state[EARLIER] = (*earlier, last, answer)
    put_prompt(text)
    press("run")


def _answer(trace: Trace) -> str:
    return text_without_end(trace).strip() or "…"


def _before() -> tuple[Message, ...]:
    return st.session_state.get(EARLIER, ())


def _before_of_preset(text: str) -> tuple[Message, ...]:
    """Return the messages before ``text`` in a shipped chat prompt; empty for other texts."""
    return next((each.before for each in read_chat_prompts() if each.text == text), ())


def _leave() -> None:
    st.session_state.pop(EARLIER, None)

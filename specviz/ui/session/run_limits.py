"""The limits of students' runs, checked where the pages submit runs (``session/worker.py``).

The owner of the dashboard has no limits. A refused run reaches neither the queue nor the worker
process, does not count, and stops no other run.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from weakref import WeakSet

import streamlit as st

from specviz.access.roles import Action, Person
from specviz.access.setting_values import Limits
from specviz.access.settings import the_settings
from specviz.errors import LimitError, SpecvizError
from specviz.record.conversations import Conversation, TypedPrompt
from specviz.record.trace import RunConfig
from specviz.ui.docs.chapters import chapter_link
from specviz.ui.session.person import the_person
from specviz.worker.parent.client import Run

_MINUTE = 60.0
_WHY = "The owner of this dashboard has set this limit."


def has_limits(person: Person) -> bool:
    return not person.may(Action.MANAGE)


def prompt_refusal(prompts: Sequence[TypedPrompt]) -> SpecvizError | None:
    """Return the error if the current person must not send these prompts; else None."""
    if not has_limits(the_person()):
        return None
    most = the_settings().limits.prompt_characters
    length = max(map(_characters, prompts), default=0)
    if length <= most:
        return None
    return LimitError(
        f"The prompt has {length:,} characters; at most {most:,} are allowed.",
        remedy=f"Shorten it. {_WHY}",
    )


def config_refusal(config: RunConfig, limits: Limits) -> SpecvizError | None:
    """Return the error if a run's settings exceed the limits, else None."""
    depth = len(config.branching) or config.gamma
    sizes = (
        ("new tokens", config.max_new_tokens, limits.tokens, "Lower the number of new tokens."),
        ("candidates in a row (γ)", depth, limits.gamma, "Lower γ."),
        (
            "candidates per round",
            drafted_per_round(config),
            limits.candidates,
            "Lower γ, or choose fewer chains or a smaller tree.",
        ),
    )
    for name, size, most, remedy in sizes:
        if size > most:
            return LimitError(
                f"The run has {size:,} {name}; at most {most:,} are allowed.",
                remedy=f"{remedy} {_WHY}",
            )
    return None


def drafted_per_round(config: RunConfig) -> int:
    """Return the largest number of candidates in a round, in all chains together or in the tree."""
    if config.dynamic_tree:
        return config.dynamic_tree[1]
    if config.branching:
        nodes, total = 1, 0
        for children in config.branching:
            nodes *= children
            total += nodes
        return total
    return config.gamma * config.num_drafts


def show_run_limits() -> None:
    """Draw the limits of this person's runs, if there are any."""
    person = the_person()
    if has_limits(person) and person.may(Action.RUN):
        limits = the_settings().limits
        st.caption(
            f"Your limits: {limits.tokens:,} tokens, γ {limits.gamma}, {limits.runs_per_minute} "
            f"runs a minute, {limits.runs_at_once} at once. {chapter_link('limits')}"
        )


@dataclass(slots=True)
class _Account:
    """One person's runs: the times of the starts in the last minute, and the unfinished runs."""

    starts: deque[float] = field(default_factory=deque)
    runs: WeakSet[Run] = field(default_factory=WeakSet)


class RunLimits:
    """Counts each person's runs, over all their tabs; safe to call from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._accounts: dict[str, _Account] = {}
        self._lock = RLock()

    @contextmanager
    def turn(
        self, session: str, prompt: TypedPrompt, config: RunConfig
    ) -> Iterator[tuple[SpecvizError | None, Callable[[Run], Run]]]:
        """Yield two values: an error (None if the run is permitted), and a function that counts it.

        No other run is checked until the block ends. So two tabs cannot both get the last
        permitted run.
        """
        person = the_person()
        if not has_limits(person):
            yield None, lambda run: run
            return
        limits = the_settings().limits
        with self._lock:
            account = self._account_of(person.key)
            error = (
                config_refusal(config, limits)
                or prompt_refusal([prompt])
                or self._refusal(account, session, limits)
            )
            yield error, lambda run: self._counted(account, run)

    def _refusal(self, account: _Account, session: str, limits: Limits) -> SpecvizError | None:
        # A new run stops the unfinished run of its own tab.
        going = sum(not run.finished and run.session != session for run in account.runs)
        if going >= limits.runs_at_once:
            runs = "runs is" if limits.runs_at_once == 1 else "runs are"
            return LimitError(
                f"{limits.runs_at_once} of your {runs} waiting or running in other tabs; more are "
                "not allowed.",
                remedy=f"The next run is possible when one of these runs ends. {_WHY}",
            )
        if len(account.starts) >= limits.runs_per_minute:
            free_at = account.starts[-limits.runs_per_minute] + _MINUTE
            seconds = max(1, math.ceil(free_at - self._now()))
            return LimitError(
                f"You have started {limits.runs_per_minute} runs within a minute; more are not "
                "allowed.",
                remedy=f"The next run is possible in {seconds} s. {_WHY}",
            )
        return None

    def _account_of(self, key: str) -> _Account:
        oldest = self._now() - _MINUTE
        for other, account in list(self._accounts.items()):
            while account.starts and account.starts[0] <= oldest:
                account.starts.popleft()
            if not account.starts and not account.runs and other != key:
                del self._accounts[other]
        return self._accounts.setdefault(key, _Account())

    def _counted(self, account: _Account, run: Run) -> Run:
        for other in [each for each in account.runs if each.finished]:
            account.runs.discard(other)
        account.starts.append(self._now())
        account.runs.add(run)
        return run


def _characters(prompt: TypedPrompt) -> int:
    if isinstance(prompt, Conversation):
        return sum(len(each.content) for each in prompt.messages)
    return len(prompt)


@st.cache_resource(show_spinner=False)
def the_run_limits() -> RunLimits:
    return RunLimits()

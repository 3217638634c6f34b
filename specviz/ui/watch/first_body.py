"""The target's default simulated size on Watch, until a run uses it or the user chooses a size.

A simulated size (in code: a body) makes a model larger and slower without changing its output. Once
the page is open, the worker checks the machine's resources and loads the enlarged target. The
controls name the pair at its real size until a run uses the enlarged target. A run that starts
before the enlarged target is loaded uses the real size.

``SPECVIZ_FIRST_BODY`` sets another default size; ``none`` means no default size. Pairs of the chat
model and pairs that are not embedded have no default size.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import streamlit as st

from specviz.errors import ConfigError, SpecvizError
from specviz.record.bodies import NO_BODY, body_name
from specviz.record.body_costs import default_body
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import CHAT_PAIR, PairSpec
from specviz.ui.session.body_rooms import body_room, found_room
from specviz.ui.widgets.pair_boxes import bodies_are_chosen, set_bodies, shown_pair
from specviz.ui.widgets.pair_panel import use_pair
from specviz.ui.widgets.run_controls import Choices
from specviz.worker.parent.client import PairStatus, Run, Worker

FIRST_BODY = "SPECVIZ_FIRST_BODY"
_AUTO = "auto"  # chosen by the machine's resources
_KEY = "first body"


@dataclass(slots=True)
class FirstBody:
    """The state of the target's default simulated size in one browser session."""

    offered: PairSpec | None = None  # the enlarged pair
    loading: bool = False  # the offered pair is not ready yet
    error: SpecvizError | None = None  # why the body is not available
    _early: set[str] = field(default_factory=set)  # ids of runs started before the body was ready

    def settle(self, worker: Worker, status: PairStatus) -> None:
        """Offer the enlarged target once the machine's resources are known, or update the offer."""
        offered = self.offered
        if offered and (bodies_are_chosen() or shown_pair() != offered.without_bodies):
            self._withdraw(worker, offered)
        elif offered and self.loading and not status.preparing:
            self._check(status, offered)
        if self.offered is None and not bodies_are_chosen():
            self._offer(worker, status)

    @property
    def pending(self) -> bool:
        """Whether an enlarged target may become ready later; until then, runs use the real size."""
        return self.loading or (self.offered is None and not bodies_are_chosen())

    @property
    def ready(self) -> PairSpec | None:
        """The pair with the enlarged target, if the next run will use it."""
        return None if self.loading else self.offered

    def use(self) -> None:
        """If the enlarged target is loaded, use it in the run that was just requested."""
        if self.ready is not None:
            set_bodies(self.ready.target_body, NO_BODY)
            use_pair(self.ready)
            self.offered = None

    def submit(
        self, worker: Worker, session: str, spec: PairSpec, prompt: TypedPrompt, choices: Choices
    ) -> Run:
        """Submit a run, and return it.

        If the enlarged target is still being loaded, the run interrupts the loading and uses the
        real size. Loading starts again after the run.
        """
        self.error = None
        interrupted = self.offered if self.loading else None
        if interrupted:
            worker.cancel_preparing(interrupted)
        run = worker.submit(
            session,
            spec,
            prompt,
            choices.config,
            detects_chat=choices.detects_chat,
            before_kernels=True,
        )
        if interrupted:
            self._early.add(run.id)
            worker.prepare(interrupted)
        return run

    def was_early(self, run: Run) -> bool:
        return run.id in self._early

    def _offer(self, worker: Worker, status: PairStatus) -> None:
        pair = shown_pair()
        is_small = pair is not None and pair.embedded and pair.embedded_target != CHAT_PAIR
        body = self._body(worker, status, pair) if pair and is_small else NO_BODY
        if body is None:
            return  # not known yet
        if pair is None or body == NO_BODY:
            set_bodies(NO_BODY, NO_BODY)
            return
        self.offered = offered = replace(pair, target_body=body)
        self.loading = status.spec != offered or status.state != "ready"
        if self.loading:
            worker.prepare(offered)

    def _body(self, worker: Worker, status: PairStatus, pair: PairSpec) -> str | None:
        wanted = os.environ.get(FIRST_BODY, _AUTO).strip().lower()
        if wanted != _AUTO:
            try:
                return body_name(wanted)
            except ConfigError as error:
                self.error = error
                return NO_BODY
        request = body_room(worker, status, pair)
        if request is None or not request.done:
            return None
        room = found_room(request)
        return default_body(room) if room else NO_BODY

    def _withdraw(self, worker: Worker, offered: PairSpec) -> None:
        """Drop the offer, because the user chose another pair or simulated size."""
        if self.loading and offered != shown_pair():
            worker.cancel_preparing(offered)
        self.offered, self.loading = None, False

    def _check(self, status: PairStatus, offered: PairSpec) -> None:
        self.loading = False
        if status.state != "ready":  # cancelled or failed
            self.offered = None
            self.error = status.error if status.spec == offered else None
            set_bodies(NO_BODY, NO_BODY)


def session_first_body() -> FirstBody:
    return st.session_state.setdefault(_KEY, FirstBody())

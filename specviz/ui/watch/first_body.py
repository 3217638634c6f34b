"""The body that Watch begins with where nobody has chosen one.

The worker looks what the machine has, and grows the target as soon as the page is open. Until that
is done, Run goes without a body and says so. ``SPECVIZ_FIRST_BODY`` names another body to begin
with, or ``none``; only the embedded pair begins with one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import streamlit as st

from specviz.errors import ConfigError, SpecvizError
from specviz.record.bodies import NO_BODY, body_name
from specviz.record.body_costs import default_body
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.session.body_rooms import body_room, found_room
from specviz.ui.widgets.pair_boxes import bodies_are_chosen, put_bodies, shown_pair
from specviz.ui.widgets.pair_panel import ask_for
from specviz.worker.parent.client import PairStatus, Run, Worker

FIRST_BODY = "SPECVIZ_FIRST_BODY"
_BY_THE_MACHINE = "auto"
_KEY = "first body"


@dataclass(slots=True)
class FirstBody:
    """Of one browser session."""

    growing: PairSpec | None = None  # asked for by the page, and not ready yet
    error: SpecvizError | None = None  # why there is none after all
    _early: set[str] = field(default_factory=set)  # runs that were started before it was grown

    def settle(self, worker: Worker, status: PairStatus) -> None:
        """Choose the body as soon as that can be done; then see whether it has been grown."""
        if not bodies_are_chosen():
            self._choose(worker, status)
        elif self.growing is not None:
            self._look(worker, status, self.growing)

    @property
    def pending(self) -> bool:
        """Whether a run that is started now goes without the body."""
        return self.growing is not None or not bodies_are_chosen()

    def submit(
        self, worker: Worker, session: str, spec: PairSpec, prompt: str, config: RunConfig
    ) -> Run:
        """A run of the pair; of the pair as it is, where its body is still growing.

        The growing is broken off for the run, and begins again after it.
        """
        self.error = None
        if not self.pending:
            return worker.submit(session, spec, prompt, config)
        worker.cancel_preparing()
        run = worker.submit(session, spec.as_it_is, prompt, config)
        self._early.add(run.id)
        if self.growing is not None:
            worker.prepare(self.growing)
        return run

    def was_early(self, run: Run | None) -> bool:
        return run is not None and run.id in self._early

    def _choose(self, worker: Worker, status: PairStatus) -> None:
        pair = shown_pair()
        body = self._body(worker, status, pair) if pair and pair.embedded else NO_BODY
        if body is None:
            return  # it is not known yet
        put_bodies(body, NO_BODY)
        if pair is None or body == NO_BODY:
            return
        grown = replace(pair, target_body=body)
        ask_for(grown)
        if status.spec != grown or status.state != "ready":
            self.growing = grown
            worker.prepare(grown)

    def _body(self, worker: Worker, status: PairStatus, pair: PairSpec) -> str | None:
        wanted = os.environ.get(FIRST_BODY, _BY_THE_MACHINE).strip().lower()
        if wanted != _BY_THE_MACHINE:
            try:
                return body_name(wanted)
            except ConfigError as error:
                self.error = error
                return NO_BODY
        asked = body_room(worker, status, pair)
        if asked is None or not asked.done:
            return None
        room = found_room(asked)
        return default_body(room) if room else NO_BODY

    def _look(self, worker: Worker, status: PairStatus, grown: PairSpec) -> None:
        if shown_pair() != grown:  # somebody chose otherwise
            self.growing = None
            if status.state == "loading" and status.spec == grown:
                worker.cancel_preparing()
        elif not status.preparing:
            self.growing = None
            if status.state != "ready":  # cancelled, or it failed
                self.error = status.error if status.spec == grown else None
                put_bodies(NO_BODY, NO_BODY)
                ask_for(grown.as_it_is)


def session_first_body() -> FirstBody:
    return st.session_state.setdefault(_KEY, FirstBody())

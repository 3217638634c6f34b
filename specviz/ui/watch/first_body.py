"""The default body of the target on Watch, used until the user or a link chooses a body.

Once the page is open, the worker checks the machine's resources and enlarges the target. Runs that
start earlier have no body, and the page says so. ``SPECVIZ_FIRST_BODY`` sets another default, or
``none``. Only the embedded pair has a default body.
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
from specviz.ui.widgets.pair_boxes import bodies_are_chosen, set_bodies, shown_pair
from specviz.ui.widgets.pair_panel import use_pair
from specviz.worker.parent.client import PairStatus, Run, Worker

FIRST_BODY = "SPECVIZ_FIRST_BODY"
_AUTO = "auto"  # chosen by the machine's resources
_KEY = "first body"


@dataclass(slots=True)
class FirstBody:
    """The state of the default body in one browser session."""

    loading: PairSpec | None = None  # requested by the page, not ready yet
    error: SpecvizError | None = None  # why the body is not available
    _early: set[str] = field(default_factory=set)  # ids of runs started before the body was ready

    def settle(self, worker: Worker, status: PairStatus) -> None:
        """Choose the body when the machine's resources are known, or check whether it is ready."""
        if not bodies_are_chosen():
            self._choose(worker, status)
        elif self.loading is not None:
            self._check(worker, status, self.loading)

    @property
    def pending(self) -> bool:
        """Return whether a run started now would have no body."""
        return self.loading is not None or not bodies_are_chosen()

    def submit(
        self, worker: Worker, session: str, spec: PairSpec, prompt: str, config: RunConfig
    ) -> Run:
        """Submit a run, without the body if the body is not ready yet.

        Such a run interrupts the preparation of the body, which starts again after the run.
        """
        self.error = None
        if not self.pending:
            return worker.submit(session, spec, prompt, config)
        worker.cancel_preparing()
        run = worker.submit(session, spec.without_bodies, prompt, config)
        self._early.add(run.id)
        if self.loading is not None:
            worker.prepare(self.loading)
        return run

    def was_early(self, run: Run | None) -> bool:
        return run is not None and run.id in self._early

    def _choose(self, worker: Worker, status: PairStatus) -> None:
        pair = shown_pair()
        body = self._body(worker, status, pair) if pair and pair.embedded else NO_BODY
        if body is None:
            return  # not known yet
        set_bodies(body, NO_BODY)
        if pair is None or body == NO_BODY:
            return
        enlarged = replace(pair, target_body=body)
        use_pair(enlarged)
        if status.spec != enlarged or status.state != "ready":
            self.loading = enlarged
            worker.prepare(enlarged)

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

    def _check(self, worker: Worker, status: PairStatus, enlarged: PairSpec) -> None:
        if shown_pair() != enlarged:  # the user chose another pair or body
            self.loading = None
            if status.state == "loading" and status.spec == enlarged:
                worker.cancel_preparing()
        elif not status.preparing:
            self.loading = None
            if status.state != "ready":  # cancelled or failed
                self.error = status.error if status.spec == enlarged else None
                set_bodies(NO_BODY, NO_BODY)
                use_pair(enlarged.without_bodies)


def session_first_body() -> FirstBody:
    return st.session_state.setdefault(_KEY, FirstBody())

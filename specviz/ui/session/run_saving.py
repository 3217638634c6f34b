"""Save the dashboard's runs in the library, and show a warning on the pages if saving failed.

A run is not saved if it decoded for less than a second before another run started or the tab was
closed: moving a slider with the arrow keys starts many such runs.
"""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from specviz.access.demo import is_demo
from specviz.errors import SpecvizError
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.ui.session.library_quota import keep_quota
from specviz.ui.session.page_library import the_library
from specviz.ui.widgets.plain_text import as_text
from specviz.worker.parent.client import Run

__all__ = ["RunSaver", "is_worth_saving", "show_save_failure", "the_library", "the_run_saver"]

_LEAST_SECONDS = 1.0  # a superseded run that decoded for less time is not saved


def has_library() -> bool:
    """Return whether there are stored runs at all: the demo has none."""
    return not is_demo()


def is_worth_saving(run: Run) -> bool:
    """Return whether to save an ended run: False if another run soon replaced it."""
    if not run.superseded or run.state != "stopped":
        return True
    return sum(entry.times.decode for entry in run.rounds) >= _LEAST_SECONDS


class RunSaver:
    """Saves finished runs. ``failure`` is the error if the last attempt to save failed, else None.

    ``save`` is called in the worker's threads, where no person is current. So a run is stored for
    the person who submitted it.
    """

    def __init__(self) -> None:
        self.failure: SpecvizError | None = None

    def save(self, run: Run) -> None:
        assert run.trace is not None
        if not is_worth_saving(run):
            return
        try:
            save_run(Library(), run.trace, run_id=run.id, person=run.person)
        except SpecvizError as error:
            self.failure = error
        else:
            self.failure = None
            with suppress(SpecvizError):  # the run is saved; the next one tries again
                keep_quota(the_library(), saved=run.id)


@st.cache_resource(show_spinner=False)
def the_run_saver() -> RunSaver:
    return RunSaver()


def show_save_failure() -> None:
    """Show a warning if the last run could not be saved."""
    failure = the_run_saver().failure
    if failure is not None:
        st.warning(f"The last run was not saved. {as_text(failure)}")

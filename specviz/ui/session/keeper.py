"""Every run of the dashboard goes into the library; where that fails, the pages say so."""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.ui.widgets.plain_text import as_text
from specviz.worker.parent.client import Run


class Keeper:
    """Called from the worker's threads; a failure is remembered until a run is kept again."""

    def __init__(self) -> None:
        self.failure: SpecvizError | None = None

    @property
    def library(self) -> Library:
        """Of the present data folder."""
        return Library()

    def keep(self, run: Run) -> None:
        assert run.trace is not None
        try:
            save_run(self.library, run.trace, run_id=run.id)
        except SpecvizError as error:
            self.failure = error
        else:
            self.failure = None


@st.cache_resource(show_spinner=False)
def the_keeper() -> Keeper:
    return Keeper()


def show_failure() -> None:
    """A warning where the last run could not be kept."""
    failure = the_keeper().failure
    if failure is not None:
        st.warning(f"The last run is not in the library. {as_text(failure)}")

"""Without a home folder the pages report that there is no library, and do not crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

OPENED = """
from specviz.ui.session.history import History
from specviz.ui.watch.library_run import open_linked_run
from specviz.ui.widgets.plain_text import show_error
show_error(open_linked_run(History()))
"""
KEPT = """
from specviz.ui.compare.kept import show_kept
show_kept(busy=False)
"""
STARTED = """
from specviz.ui.compare import current
current._start("prompt", lambda: None, fresh=False)
"""


@pytest.mark.parametrize("script", [OPENED, KEPT, STARTED], ids=["opened", "kept", "started"])
def test_pages_report_a_missing_home_folder(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("specviz.store.library.data_folder", none)
    monkeypatch.setattr("specviz.ui.session.background_jobs.run_maker", lambda: None)
    app = AppTest.from_string(script)
    app.query_params["run"] = "some run"
    app.run(timeout=60)
    assert not app.exception
    assert "no home folder" in " ".join(str(each.value) for each in app.error)

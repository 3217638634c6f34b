"""Runs: find, open, compare, export and delete the saved runs."""

from specviz.errors import SpecvizError
from specviz.ui.runs.library import library_caption, show_library
from specviz.ui.session.run_saving import show_save_failure
from specviz.ui.session.worker import this_tab
from specviz.ui.shell import require_shell
from specviz.ui.widgets.page_parts import show_heading
from specviz.ui.widgets.plain_text import show_error

require_shell()

this_tab()
show_heading("Runs", library_caption())
show_save_failure()
try:
    show_library()
except SpecvizError as error:
    show_error(error)

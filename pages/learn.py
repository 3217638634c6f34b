"""Learn: a lesson in steps, a guessing game, and challenges that the user solves with runs."""

from specviz.errors import SpecvizError
from specviz.ui.learn.lesson import show_lesson
from specviz.ui.learn.lesson_runs import LiveRuns
from specviz.ui.session.history import remember_tab
from specviz.ui.session.presses import take_press
from specviz.ui.shell import require_shell
from specviz.ui.watch.stage import open_stage
from specviz.ui.widgets.page_parts import show_heading
from specviz.ui.widgets.plain_text import show_error

require_shell()

stage = open_stage()
show_heading(
    "Learn by doing",
    "Learn with real runs: a lesson of eight steps, a guessing game, and eleven challenges.",
)
try:
    stage.begin_requested_run(pressed=take_press("run"))
except SpecvizError as problem:
    show_error(problem)
remember_tab(stage.history)
show_lesson(LiveRuns(stage=stage))

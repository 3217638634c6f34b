"""When the formula misleads: cases in which the speedup formula is wrong or incomplete."""

from specviz.ui.session.history import session_history
from specviz.ui.shell import require_shell
from specviz.ui.theory.misleading.machine_batch import show_machine_batch
from specviz.ui.theory.misleading.sections import (
    show_batch,
    show_clustering,
    show_estimates,
    show_tail,
    show_temperature,
)
from specviz.ui.theory.speed.speedup_points import session_runs
from specviz.ui.widgets.page_parts import show_heading, show_tabs

require_shell()

show_heading(
    "When the formula misleads",
    "The speedup formula assumes that candidates are accepted independently and with the same "
    "probability, and that verification costs no extra time. Its result is only a mean.",
)
show_tabs(
    "misleading_tab",
    {
        "Clusters": show_clustering,
        "Mean and tail": show_tail,
        "Batch and context": show_batch,
        "This machine's batch": show_machine_batch,
        "Temperature": show_temperature,
        "Estimating α": lambda: show_estimates(session_runs(session_history())),
    },
)

"""The dashboard with another Python for its worker: one that notes when a round was decoded.

Environment: ``SPECVIZ_PYTHON``, what the worker is started with.
"""

from __future__ import annotations

import os
import sys

from specviz.ui.shell import open_shell

sys.executable = os.environ["SPECVIZ_PYTHON"]
open_shell()

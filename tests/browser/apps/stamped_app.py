"""The dashboard with another Python for its worker, which records when each round was decoded.

Environment: ``SPECVIZ_PYTHON``, the worker's interpreter.
"""

from __future__ import annotations

import os
import sys

from specviz.ui.shell import open_shell

sys.executable = os.environ["SPECVIZ_PYTHON"]
open_shell()

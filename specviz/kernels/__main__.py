"""``python -m specviz.kernels``: compile and cache the kernels for the bundled pair.

The exit code is 1 if the kernels do not work.
"""

from __future__ import annotations

import sys

from specviz.kernels.readiness import DEFAULT_NUMBER_TYPE, ready

if __name__ == "__main__":
    sys.exit(0 if ready(DEFAULT_NUMBER_TYPE) else 1)

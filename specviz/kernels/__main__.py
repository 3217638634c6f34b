"""``python -m specviz.kernels``: makes and keeps the machine code for the pair of specviz.

The exit code is 1 where the kernels do not work.
"""

from __future__ import annotations

import sys

from specviz.kernels.readiness import USUAL, ready

if __name__ == "__main__":
    sys.exit(0 if ready(USUAL) else 1)

"""Run the worker process on an inherited socket: ``python -m specviz.worker FD``."""

from __future__ import annotations

import sys

from specviz.kernels.ahead import compile_ahead

if __name__ == "__main__":
    compile_ahead()
    from specviz.worker.child.process import main

    main(int(sys.argv[1]))

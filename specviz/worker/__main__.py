"""``python -m specviz.worker FD``: the worker process, on an inherited socket."""

from __future__ import annotations

import sys

from specviz.worker.child.process import main

if __name__ == "__main__":
    main(int(sys.argv[1]))

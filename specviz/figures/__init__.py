"""What follows from a run: figures, intervals, timing, roofline and the sentences about them.

The run itself is in ``record``. This package needs neither models nor a page; it uses ``theory``.
``catalogue`` lists every figure that a page, the command line or a file shows.
"""

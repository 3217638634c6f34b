"""What is computed from a run: figures, intervals, timing, roofline and sentences about them.

This package needs neither models nor a page. ``record`` holds the run itself, ``theory`` the
formulas. ``catalogue`` lists every figure that a page, the command line or a file shows.
"""

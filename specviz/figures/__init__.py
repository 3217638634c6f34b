"""Values computed from a run: figures, intervals, timing, roofline, and sentences about them.

Nothing here loads a model or draws a page. ``record`` holds the run itself, ``theory`` the
formulas. ``catalogue`` lists every figure that a page, the command line or a file shows.
"""

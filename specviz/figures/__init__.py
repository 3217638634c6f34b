"""Values computed from a run: metrics, intervals, timing, roofline, and sentences about them.

A figure is a number with a name and a definition, such as the acceptance rate. ``catalogue`` lists
every figure that a page, the command line or a file shows. Nothing here loads a model or draws a
page. ``record`` holds the run itself, ``theory`` the formulas.
"""

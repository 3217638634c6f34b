"""Load tests of a serving engine: many requests in flight, with speculation and without.

A load test (sweep) measures each server at each level of load: a number of users, or of requests
per second. A block is one measurement: one server at one level. ``order`` and ``planning`` decide
which blocks a sweep has, ``generator`` sends the requests of one block, and ``load_job`` runs the
sweep in the background. ``specviz.figures.load_figures`` computes the metrics of a sweep.
"""

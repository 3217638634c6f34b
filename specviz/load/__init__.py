"""Load on a serving engine: many requests in flight, with speculation and without.

``generator`` sends the requests of one block; ``sweep`` orders the blocks; ``load_job`` is the
background job. ``specviz.figures.load_figures`` computes the figures of a sweep.
"""

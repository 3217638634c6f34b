"""Make runs on the devices of a Ray cluster. No other package uses Ray.

``ClusterMaker`` is a ``BlockMaker``: it makes blocks of runs on several devices at once. For the
plan of a comparison, see ``comparison.plan_runner``. Importing this package does not import Ray.
"""

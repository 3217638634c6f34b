"""Make runs on the devices of a Ray cluster. No other package uses Ray.

``ClusterMaker`` is a ``BlockMaker``: it makes several blocks at once, each on one device. A block
is a group of runs that are compared with each other; ``comparison.plan_runner`` divides a
comparison into blocks. Importing this package does not import Ray.
"""

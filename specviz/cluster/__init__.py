"""Make runs on the devices of a Ray cluster. No other package uses Ray.

``ClusterMaker`` is a ``BlockMaker``: it makes blocks of runs on several devices at once.
``comparison.plan_runner`` divides a comparison into blocks. Importing this package does not import
Ray.
"""

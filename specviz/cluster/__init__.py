"""Make runs on the devices of a Ray cluster. No other package uses Ray.

``ClusterMaker`` accepts blocks of runs, like every run maker. For the plan of a comparison, see
``comparison.plan_runner``. Importing this package does not import Ray.
"""

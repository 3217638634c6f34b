"""Makes runs on the devices of a Ray cluster. No other package uses Ray.

It accepts blocks of runs like any run maker and knows nothing of plans; see
``comparison.plan_runner`` for those. Importing it does not import Ray.
"""

"""The tab "Under load" of Servers: controls, live view and results of a load sweep.

A load sweep measures a serving engine at several loads. A load is a number of simultaneous users,
or a number of requests per second.
"""

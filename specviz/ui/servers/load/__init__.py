"""The tab "Under load" of Servers: controls, live view and results of a load sweep.

A load sweep measures a serving engine at several loads: numbers of users or requests per second.
"""

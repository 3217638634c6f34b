"""The mathematics of speculative decoding: closed forms, exact recursions, and simulations.

It uses numpy only, so that tests can compare the torch code with an independent reference.
"""

"""Kernels compiled on the user's machine: a model step, few-row matrix products, statistics."""

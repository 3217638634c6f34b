"""Exact results of methods for the engine's tests, in numpy and without any code of the engine."""

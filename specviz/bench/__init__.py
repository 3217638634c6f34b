"""Benchmarks of specviz's engine against other engines, with the same pair of models."""

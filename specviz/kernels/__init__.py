"""Kernels compiled on the user's machine: model steps, matrix products, and statistics."""

"""Kernels compiled on the user's machine: model steps, products of few rows, and statistics."""

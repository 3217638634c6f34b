"""Kernels compiled on the user's machine: a whole model step, and matrix products of few rows."""

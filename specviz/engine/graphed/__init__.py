"""Rounds that never leave the device: static caches, state on the device, CUDA graphs."""

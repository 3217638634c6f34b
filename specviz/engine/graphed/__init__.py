"""Rounds played entirely on the device: static caches, state on the device, CUDA graphs."""

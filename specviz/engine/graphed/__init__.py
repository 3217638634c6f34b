"""Rounds that run entirely on the device: static KV caches, state on the device, CUDA graphs."""

"""The worker process, which owns the models."""

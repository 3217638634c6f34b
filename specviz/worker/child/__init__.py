"""The process that owns the models."""

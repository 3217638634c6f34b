"""The process that owns the models, and its client: requests in, rounds out."""

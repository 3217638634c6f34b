"""The dashboard's side of the worker: its client, the queue, the link."""

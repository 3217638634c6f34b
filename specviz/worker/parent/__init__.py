"""The dashboard's side of the worker: the client with its queue, and the link to the process."""

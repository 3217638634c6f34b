"""Load a pair from names or folders: sources, checks, hardware and weights."""

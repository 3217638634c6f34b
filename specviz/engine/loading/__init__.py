"""From a name or a folder to a proved pair: sources, checks, hardware, weights."""

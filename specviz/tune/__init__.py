"""Choose settings by expected speedup, and audit that a pair's output is lossless."""

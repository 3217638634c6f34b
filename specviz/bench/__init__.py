"""The bench: specviz's engine measured against other engines with the same pair."""

"""The bench: this engine measured against transformers on the same pair."""

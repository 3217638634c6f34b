"""Rivals side by side: this engine against transformers on the same pair."""

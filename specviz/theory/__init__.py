"""Closed forms and exact recursions of speculative decoding in numpy; the engine's reference."""

"""Closed forms and exact recursions of speculative decoding in numpy; a reference for tests."""

"""Choosing settings and proving them: the audit of what a pair emits."""

"""Sections, charts and sentences of the theory pages, one folder per page."""

"""Sections, charts and sentences of the page "When the formula misleads"."""

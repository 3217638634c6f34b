"""Sections and charts of the Tune page."""

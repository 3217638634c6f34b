"""Sections and charts of the Speed page."""

"""Sections and charts of the Train page."""

"""Sections and charts of the Compare page."""

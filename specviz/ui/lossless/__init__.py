"""Sections and charts of the Lossless page."""

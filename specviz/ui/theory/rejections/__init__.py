"""Sections and charts of the Rejections page."""

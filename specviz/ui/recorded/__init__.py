"""Versions of the pages with recorded runs and results, for people who may not start runs."""

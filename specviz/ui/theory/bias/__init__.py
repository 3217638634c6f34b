"""Sections, charts and the simulation of the page "Bias or speed"."""

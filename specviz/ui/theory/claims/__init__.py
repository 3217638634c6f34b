"""Cards, runs and evidence of the Claims page."""

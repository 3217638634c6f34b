"""Plotly figures of frames and theory: pure functions, no page and no models."""

"""Measure how much quality a lossy rule costs; a scorer compares texts of several rules."""

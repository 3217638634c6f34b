"""Measured runs: step costs, a forecast, the run itself, and timing of the target alone."""

"""Measured runs: step costs, a forecast, the run itself, and the target alone beside it."""

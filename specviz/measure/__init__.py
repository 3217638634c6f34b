"""A run with everything it is compared with: step costs, a forecast, the target alone."""

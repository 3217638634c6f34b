"""One run with everything it is held against: step costs, forecast, the target alone."""

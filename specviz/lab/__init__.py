"""Engine runs judged by analysis: step costs, forecasts, measured runs, the bench."""

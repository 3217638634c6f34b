"""The parts of the page Bias or speed."""

"""The parts of the page When the formula misleads."""

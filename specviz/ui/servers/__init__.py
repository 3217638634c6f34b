"""The parts of the Servers page."""

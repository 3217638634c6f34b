"""The parts of the page Claims."""

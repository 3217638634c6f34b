"""The parts of the page Servers."""

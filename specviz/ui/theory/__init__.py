"""The parts of the theory pages, a folder a page."""

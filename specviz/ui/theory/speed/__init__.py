"""The parts of the page Speed."""

"""The parts of the page Compare, and its charts."""

"""The parts of the page Tune, and its charts."""

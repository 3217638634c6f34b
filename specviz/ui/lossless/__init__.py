"""The parts of the page Lossless, and its charts."""

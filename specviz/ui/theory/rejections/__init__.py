"""The parts of the page Rejections."""

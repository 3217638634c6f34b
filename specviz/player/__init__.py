"""The Python half of the player: the data sent to it, its source, and the one-file replay."""

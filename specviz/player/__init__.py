"""The Python half of the player: its data, its source, and the one-file replay."""

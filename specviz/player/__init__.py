"""The Python half of the player: what is sent to it, its source, and the one-file replay."""

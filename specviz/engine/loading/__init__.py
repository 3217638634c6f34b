"""Find, check and load the draft and the target that a user names."""

"""Decoding: the draft-and-verify loop, plain decoding, recording of rounds, and step costs."""

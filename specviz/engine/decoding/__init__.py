"""Decoding: the draft-and-verify loop, plain decoding, the record of rounds, and step costs."""

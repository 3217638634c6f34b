"""Train a draft for a Llama-shaped target, which writes the texts that the draft learns from."""

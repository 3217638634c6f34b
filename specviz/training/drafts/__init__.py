"""Train a draft for any Llama-shaped target: the target writes texts, a draft learns from them."""

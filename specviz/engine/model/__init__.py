"""A loaded pair: its steps, matrix products, texts and chat templates."""

"""A loaded pair: model steps, matrix products, token texts and chat templates."""

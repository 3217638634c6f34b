"""A run as values, and what follows from them: figures, intervals, checks. No models, no page."""

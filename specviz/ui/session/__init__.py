"""State of a browser session: the worker, the tab with its runs and answers, and redraws."""

"""State of a browser session: the worker, the tab, its runs and answers, periodic redraws."""

"""Pages for people who may not start runs: the same pages, with recorded runs and results."""

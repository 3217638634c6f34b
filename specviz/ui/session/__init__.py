"""What a browser session shares: the worker, its runs, what is drawn again by itself."""
